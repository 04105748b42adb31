package change_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// family declares a queue with a binding, a binding with arguments, and a dead-letter exchange that also leads to another queue.
func family(vh *brokers.VHost) {
	vh.DeclareExchange("events", "headers", nil)
	vh.DeclareExchange("orders.dlx", "fanout", nil)
	vh.DeclareExchange("audit", "fanout", nil)
	vh.DeclareQueue("orders", rabbittest.Quorum(nil))
	vh.DeclareQueue("orders.dlq", rabbittest.Quorum(nil))
	vh.Bind("events", "orders", "a", map[string]any{"x-match": "all", "n": int64(1)})
	vh.Bind("events", "orders", "a", map[string]any{"x-match": "all", "n": int64(2)})
	vh.Bind("orders.dlx", "orders.dlq", "", nil)
	vh.BindExchange("events", "orders.dlx", "b", nil)
	vh.BindExchange("audit", "orders.dlx", "", nil)
}

// Remove leaves the expected objects at the broker, and Observe shows them without a refresh.
func TestRemove(t *testing.T) {
	t.Parallel()
	one := topology.Binding{
		Source: "events", Destination: "orders", RoutingKey: "a", Arguments: vhost.Arguments{"x-match": "all", "n": int64(1)},
	}
	cases := map[string]struct {
		removal                     rabbit.Removal
		queues, exchanges, bindings []string // retained
		reason                      error
		says                        string
	}{
		"nothing": {
			rabbit.Removal{}, []string{"orders", "orders.dlq"}, []string{"audit", "events", "orders.dlx"}, []string{"orders", "orders", "orders.dlq"}, nil, "",
		},
		"a binding": {
			rabbit.Removal{Bindings: []topology.Binding{one}},
			[]string{"orders", "orders.dlq"},
			[]string{"audit", "events", "orders.dlx"},
			[]string{"orders", "orders.dlq"},
			nil, "",
		},
		"a queue with its bindings": {
			rabbit.Removal{Queues: []string{"orders"}}, []string{"orders.dlq"}, []string{"audit", "events", "orders.dlx"}, []string{"orders.dlq"}, nil, "",
		},
		"a queue with messages, and the exchange that led to it": {
			rabbit.Removal{Queues: []string{"orders.dlq"}, Exchanges: []string{"orders.dlx"}},
			[]string{"orders"},
			[]string{"audit", "events"},
			[]string{"orders", "orders"},
			nil, "",
		},
		"everything": {
			rabbit.Removal{Bindings: []topology.Binding{one}, Queues: []string{"orders", "orders.dlq"}, Exchanges: []string{"orders.dlx"}},
			nil,
			[]string{"audit", "events"},
			nil, nil, "",
		},
		"missing objects": {
			rabbit.Removal{
				Bindings:  []topology.Binding{{Source: "none", Destination: "orders"}, {Source: "events", Destination: "none"}, {Source: "events", Destination: "orders"}},
				Queues:    []string{"none"},
				Exchanges: []string{"none"},
			},
			[]string{"orders", "orders.dlq"},
			[]string{"audit", "events", "orders.dlx"},
			[]string{"orders", "orders", "orders.dlq"},
			nil, "",
		},
		"an exchange in use": {
			rabbit.Removal{Exchanges: []string{"orders.dlx", "audit", "none"}},
			[]string{"orders", "orders.dlq"},
			[]string{"audit", "events", "orders.dlx"},
			[]string{"orders", "orders", "orders.dlq"},
			brokererr.ErrInUse, `delete exchange "audit" in vhost`,
		},
		"no name": {
			rabbit.Removal{Queues: []string{""}, Bindings: []topology.Binding{{Source: "events"}}},
			[]string{"orders", "orders.dlq"},
			[]string{"audit", "events", "orders.dlx"},
			[]string{"orders", "orders", "orders.dlq"},
			brokererr.ErrPreconditionFailed, `it has no name`,
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				family(vh)
				vh.Publish("", "orders.dlq", "one", "two")
				connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
				err := connection.Remove(t.Context(), connection.Health().Cluster.Key(), test.removal)
				if test.reason != nil {
					rabbittest.MustBe(t, err, test.reason, test.says)
				} else if err != nil {
					t.Fatal(err)
				}
				definitions := vh.Definitions()
				var queues, exchanges, bindings []string
				for _, queue := range definitions.Queues {
					queues = append(queues, queue.Name)
				}
				for _, exchange := range definitions.Exchanges {
					exchanges = append(exchanges, exchange.Name)
				}
				for _, binding := range definitions.Bindings {
					if binding.DestinationType == "queue" {
						bindings = append(bindings, binding.Destination)
					}
				}
				want := [][]string{test.queues, test.exchanges, test.bindings}
				if difference := cmp.Diff(want, [][]string{queues, exchanges, bindings}); difference != "" {
					t.Errorf("wanted (-), is (+):\n%s", difference)
				}
				rabbittest.MustAgree(t, connection)
			})
		})
	}
}

// Clients send whole numbers with different types. The snapshot shows all of them alike.
func TestRemoveABindingWithANumberOfAnyType(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	family(vh)
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	for number, same := range map[any]int64{
		int8(3): 3, int16(300): 300, int32(3): 3, int32(70_000): 70_000, int64(3): 3, int64(1 << 40): 1 << 40,
		float64(3): 3, float64(1 << 40): 1 << 40,
	} {
		vh.Bind("events", "orders.dlq", "any", map[string]any{"x-match": "all", "n": number})
		err := connection.Remove(t.Context(), connection.Health().Cluster.Key(), rabbit.Removal{Bindings: []topology.Binding{{
			Source: "events", Destination: "orders.dlq", RoutingKey: "any", Arguments: vhost.Arguments{"x-match": "all", "n": same},
		}}})
		left := slices.ContainsFunc(vh.Definitions().Bindings, func(b brokers.Binding) bool { return b.RoutingKey == "any" })
		if err != nil || left {
			t.Errorf("%T %[1]v: %v, left: %t", number, err, left)
		}
	}
}

// Unbinding needs the same permissions as binding, and deleting the same as declaring.
func TestRemoveNamesTheMissingPermission(t *testing.T) {
	cases := map[string]struct {
		remove rabbit.Removal
		says   string
	}{
		"queue":             {rabbit.Removal{Queues: []string{"none"}}, "configure access to queue 'none'"},
		"exchange":          {rabbit.Removal{Exchanges: []string{"none"}}, "configure access to exchange 'none'"},
		"binding, queue":    {rabbit.Removal{Bindings: []topology.Binding{{Source: "r.exchange", Destination: "none"}}}, "write access to queue 'none'"},
		"binding, exchange": {rabbit.Removal{Bindings: []topology.Binding{{Source: "none", Destination: "w.queue"}}}, "read access to exchange 'none'"},
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("w.queue", nil)
		vh.DeclareQueue("none", nil)
		vh.DeclareExchange("r.exchange", "fanout", nil)
		vh.DeclareExchange("none", "fanout", nil)
		vh.Bind("r.exchange", "none", "", nil)
		vh.Bind("none", "w.queue", "", nil)
		before := vh.Definitions()
		user := vh.Broker.NewUser(t, "management")
		vh.Grant(user, "^$", "^w", "^r")
		config := rabbittest.ConfigOf(vh)
		config.Username, config.Password = user.Username, user.Password
		connection := rabbittest.Connected(t, config, nil)
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				rabbittest.MustBe(t, connection.Remove(t.Context(), connection.Health().Cluster.Key(), test.remove), brokererr.ErrAccessRefused, test.says)
			})
		}
		if difference := cmp.Diff(before, vh.Definitions()); difference != "" {
			t.Error(difference)
		}
	})
}

func TestRemoveNeverReachesAnotherCluster(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		family(vh)
		before := vh.Definitions()
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		everything := rabbit.Removal{
			Bindings: []topology.Binding{{Source: "orders.dlx", Destination: "orders.dlq"}},
			Queues:   []string{"orders", "orders.dlq"}, Exchanges: []string{"orders.dlx", "audit"},
		}
		for _, other := range []string{"rabbit@elsewhere", ""} {
			err := connection.Remove(t.Context(), vhost.Cluster{Name: other}.Key(), everything)
			rabbittest.MustBe(t, err, brokererr.ErrOtherCluster, fmt.Sprintf("the broker belongs to cluster %q, not to %q", connection.Health().ClusterName, other))
		}
		if difference := cmp.Diff(before, vh.Definitions()); difference != "" {
			t.Error(difference)
		}
		rabbittest.MustAgree(t, connection)
		if !connection.Health().Connected {
			t.Error("the refusal closed the connection")
		}
	})
}

// An address can lead to another cluster with the next TCP connection.
func TestRefreshIsNeverLabelledWithAnotherCluster(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	connection := rabbittest.Connected(t, config, nil)
	rabbittest.Hearing(t, connection) // so that no other refresh reads the second cluster
	first := connection.Health().Cluster.Key()
	var second atomic.Bool // the management API leads to the second cluster, which lacks the exclusive queue of the AMQP connection
	proxy.Change(func(response *http.Response) error {
		switch path := response.Request.URL.Path; {
		case strings.Contains(path, "/"+management.MatchQueue) && second.Load():
			response.StatusCode = http.StatusNotFound
			netfault.Replace(response, `{"error": "Object Not Found"}`)
		case strings.HasSuffix(path, "/overview"):
			netfault.Replace(response, `{"rabbitmq_version": "4.3.6", "cluster_name": "second"}`)
		case strings.HasSuffix(path, "/global-parameters"):
			netfault.Replace(response, `[{"name": "internal_cluster_id", "value": "second"}]`)
		}
		return nil
	})
	rabbittest.Seen(t, connection)
	if cluster := rabbittest.Current(connection).Cluster; cluster != first {
		t.Errorf("on the same TCP connection, the snapshot is of %q", cluster)
	}
	second.Store(true)
	connection.ReadAPI.Close() // as the server does after a time
	switch err := connection.Refresh(t.Context()); {
	case err != nil:
		rabbittest.MustBe(t, err, brokererr.ErrUnreachable, `cluster "second" answered instead of `)
	case connection.Health().Connected: // otherwise another request has found the second cluster before
		t.Error("a refresh from the second cluster succeeded, and the connection works")
	}
	second.Store(false) // the AMQP connection leads to the second cluster, too
	rabbittest.Seen(t, connection)
	observed, _ := connection.Observe(vhost.Selection{})
	now := connection.Health().Cluster
	if now.ID != vhost.HashedClusterID("second") || observed.Cluster != now.Key() {
		t.Errorf("the snapshot is of %q, the connection to %q", observed.Cluster, now)
	}
}
