package observe_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// clustered returns the configuration for a single broker that claims to have these nodes. test/cluster has real nodes.
func clustered(t *testing.T, nodes string) (config rabbit.Config, vh *brokers.VHost, say func(nodes string)) {
	t.Helper()
	vh = brokers.Newest(t).NewVHost(t)
	config = rabbittest.DeafConfigOf(t, vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	say = func(nodes string) {
		proxy.Change(func(response *http.Response) error {
			if strings.HasSuffix(response.Request.URL.Path, "/nodes") {
				netfault.Replace(response, nodes)
			}
			return nil
		})
	}
	say(nodes)
	return config, vh, say
}

func TestWithoutAMajorityOfNodesNothingIsBelieved(t *testing.T) {
	t.Parallel()
	const (
		one   = `[{"name": "a", "running": true}]`
		three = `[{"name": "a", "running": true}, {"name": "b", "running": true}, {"name": "c", "running": false}]`
		half  = `[{"name": "a", "running": true}, {"name": "b", "running": false}]`
		few   = `[{"name": "a", "running": true}, {"name": "b", "running": false}, {"name": "c", "running": false}]`
	)
	config, vh, say := clustered(t, three)
	connection := rabbittest.Connected(t, config, nil)
	vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
	names := vhost.Selection{Queues: []string{"orders"}}
	for nodes, want := range map[string]string{half: "1 of 2 nodes of the cluster are down (b)", few: "2 of 3 nodes of the cluster are down (b, c)"} {
		say(nodes)
		err := connection.Refresh(t.Context())
		if !errors.Is(err, brokererr.ErrUnreachable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", nodes, err)
		}
		if observed, _ := connection.Observe(names); len(observed.Queues) > 0 {
			t.Errorf("%s: a snapshot of a minority is used: %+v", nodes, observed)
		}
	}
	for _, nodes := range []string{three, one} {
		say(nodes)
		rabbittest.Seen(t, connection)
		if health := connection.Health(); health.Err != nil {
			t.Errorf("%s: %v", nodes, health.Err)
		}
	}
	if observed, _ := connection.Observe(names); len(observed.Queues) != 1 {
		t.Errorf("observed %+v", observed)
	}
}

func TestMembersAreReadOfClustersOnly(t *testing.T) {
	t.Parallel()
	config, vh, say := clustered(t, `[{"name": "a"}, {"name": "b"}, {"name": "c"}]`)
	vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
	vh.DeclareQueue("classic", map[string]any{"x-queue-type": "classic"})
	listener := &rabbittest.Listener{}
	connection := rabbittest.Connected(t, config, listener.Hear)
	listener.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
	names := vhost.Selection{Queues: []string{"orders", "classic", "elsewhere"}}
	observed, _ := connection.Observe(names)
	if diff := cmp.Diff(map[string]int{"orders": 1}, observed.Members); diff != "" || observed.Nodes != 3 {
		t.Errorf("of %d nodes: %s", observed.Nodes, diff)
	}

	say(`[{"name": "a"}]`)
	connection.Observer.MarkStale() // as after a new connection
	rabbittest.Seen(t, connection)
	NewWithT(t).Eventually(func() map[string]int {
		observed, _ := connection.Observe(names)
		return observed.Members
	}).WithTimeout(rabbittest.Within).Should(BeEmpty())
	listener.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
}
