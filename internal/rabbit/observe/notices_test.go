package observe_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

func TestNoticesListExactlyTheChanges(t *testing.T) {
	steps := []struct {
		name   string
		change func(*brokers.VHost)
		want   snapshot.Notice
	}{
		{"queue declared", func(v *brokers.VHost) { v.DeclareQueue("orders", nil) }, snapshot.Notice{Queues: []string{"orders"}}},
		{"exchange declared", func(v *brokers.VHost) { v.DeclareExchange("x", "topic", nil) }, snapshot.Notice{Exchanges: []string{"x"}, Routes: []string{"x"}}},
		{
			"bound", func(v *brokers.VHost) { v.Bind("x", "orders", "a", nil) },
			snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"x"}},
		},
		{
			"exchanges bound", func(v *brokers.VHost) { v.BindExchange("amq.fanout", "x", "", nil) },
			snapshot.Notice{Routes: []string{"amq.fanout"}},
		},
		{
			"unbound", func(v *brokers.VHost) { v.Unbind("x", "orders", "a", nil) },
			snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"amq.fanout", "x"}},
		},
		{
			"policy", func(v *brokers.VHost) {
				v.SetPolicy("p", brokers.Policy{Pattern: "^ord", ApplyTo: "all", Definition: map[string]any{"max-length": 5}})
			}, snapshot.Notice{Queues: []string{"orders"}},
		},
		{
			"policy to other queues", func(v *brokers.VHost) {
				v.SetPolicy("p", brokers.Policy{Pattern: "^bill", ApplyTo: "all", Definition: map[string]any{"max-length": 5}})
			}, snapshot.Notice{Queues: []string{"bills", "orders"}},
		},
		{"policy deleted", func(v *brokers.VHost) { v.DeletePolicy("p") }, snapshot.Notice{Queues: []string{"bills"}}},
		{
			"recreated otherwise", func(v *brokers.VHost) {
				v.DeleteQueue("orders")
				v.DeclareQueue("orders", map[string]any{"x-max-length": 3})
			}, snapshot.Notice{Queues: []string{"orders"}},
		},
		{"queue deleted", func(v *brokers.VHost) { v.DeleteQueue("orders") }, snapshot.Notice{Queues: []string{"orders"}}},
		{"exchange deleted", func(v *brokers.VHost) { v.DeleteExchange("x") }, snapshot.Notice{Exchanges: []string{"x"}, Routes: []string{"amq.fanout", "x"}}},
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("bills", nil)
		var listener rabbittest.Listener
		connection := rabbittest.Connected(t, rabbittest.DeafConfigOf(t, vh), listener.Hear)
		for _, step := range steps {
			t.Run(step.name, func(t *testing.T) {
				step.change(vh)
				// Neither the connection's own declaration nor a refresh without changes causes a notice.
				own := topology.Topology{
					Exchanges: []topology.Exchange{{Name: "own " + step.name, Type: "headers", Declare: true}},
					Queues:    []topology.Queue{{Name: "own " + step.name, Arguments: rabbittest.Quorum(vhost.Arguments{"x-expires": int64(600000)})}},
					Bindings: []topology.Binding{{
						Source: "own " + step.name, Destination: "own " + step.name, RoutingKey: "k",
						Arguments: vhost.Arguments{"x-match": "all", "n": int64(1)},
					}},
				}
				if err := connection.Apply(t.Context(), own); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					rabbittest.Seen(t, connection)
				}
				listener.Awaits(t, step.want)
			})
		}
	})
}

func TestFirstRefreshIsANoticeOfHealth(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareQueue("orders", nil)
	var listener rabbittest.Listener
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), listener.Hear)
	NewWithT(t).Eventually(listener.Heard).WithTimeout(rabbittest.Within).Should(ContainElement(HaveField("Health", true)))
	for _, notice := range listener.Heard() {
		if len(notice.Queues)+len(notice.Exchanges)+len(notice.Routes) > 0 {
			t.Errorf("%+v", notice)
		}
	}
	if _, ok := connection.Observe(vhost.Selection{}); !ok {
		t.Error("no snapshot after the first refresh")
	}
}
