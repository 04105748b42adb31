package tree_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/tree"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
)

// of formats the tree of a topology that is in sync.
func of(t *testing.T, cq *v1alpha1.ConsumerQueue, version vhost.Version) string {
	t.Helper()
	desired, err := topology.Desired(cq, version)
	if err != nil {
		t.Fatal(err)
	}
	cq = cq.DeepCopy()
	add := func(id vhost.ID, role v1alpha1.Role) {
		entry := topology.EntryOf(id)
		entry.Role, entry.State = role, v1alpha1.StateInSync
		cq.Status.Topology = append(cq.Status.Topology, entry)
	}
	for _, exchange := range desired.Exchanges {
		add(exchange.ID(), exchange.Role)
	}
	for _, queue := range desired.Queues {
		add(queue.ID(), queue.Role)
	}
	for _, binding := range desired.Bindings {
		add(binding.ID(), binding.Role)
	}
	var lines []string
	for _, line := range tree.Of(cq).Lines() {
		lines = append(lines, line.Branch+line.Kind+" "+line.Name)
	}
	return strings.Join(lines, "\n")
}

func TestTrees(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, want string }{
		"a main queue alone": {
			spec: topologytest.Alone,
			want: `
ConsumerQueue orders
└─ Queue orders`,
		},
		"Publish": {
			spec: "{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [a, b]}], retry: {delayTiers: [{delay: 30s}, {delay: 5m}]}}",
			want: `
ConsumerQueue orders
├─ Exchange shop
│  ├─ Binding shop -> orders "a"
│  └─ Binding shop -> orders "b"
└─ Queue orders
   ├─ Exchange orders.dlx
   │  └─ Binding orders.dlx -> orders.dlq
   │     └─ Queue orders.dlq
   ├─ Queue orders.retry.30s
   └─ Queue orders.retry.5m`,
		},
		"Publish through an exchange": {
			spec: "{retry: {exchange: {name: again}, delayTiers: [{delay: 30s, routingKey: soon}, {delay: 5m, routingKey: late}]}}",
			want: `
ConsumerQueue orders
└─ Queue orders
   ├─ Exchange again
   │  ├─ Binding again -> orders.retry.30s "soon"
   │  │  └─ Queue orders.retry.30s
   │  └─ Binding again -> orders.retry.5m "late"
   │     └─ Queue orders.retry.5m
   └─ Exchange orders.dlx
      └─ Binding orders.dlx -> orders.dlq
         └─ Queue orders.dlq`,
		},
		"Reject by reason": {
			spec: "{retry: {strategy: Reject}}",
			want: `
ConsumerQueue orders
└─ Queue orders
   └─ Exchange orders.dlx
      ├─ Binding orders.dlx -> orders.retry.30s {"x-last-death-reason":"rejected","x-match":"all-with-x"}
      │  └─ Queue orders.retry.30s
      ├─ Binding orders.dlx -> orders.dlq {"x-last-death-reason":"delivery_limit","x-match":"all-with-x"}
      │  └─ Queue orders.dlq
      ├─ Binding orders.dlx -> orders.dlq {"x-last-death-reason":"expired","x-match":"all-with-x"}
      └─ Binding orders.dlx -> orders.dlq {"x-last-death-reason":"maxlen","x-match":"all-with-x"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := of(t, topologytest.ConsumerQueue(t, test.spec), vhost.RabbitMQ43)
			if difference := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); difference != "" {
				t.Errorf("tree (-want +got):\n%s", difference)
			}
		})
	}
}

// Each object appears once.
func TestEveryObjectIsShownOnce(t *testing.T) {
	t.Parallel()
	for _, vector := range conformance.Load(t) {
		for i := range vector.ConsumerQueues {
			cq := &vector.ConsumerQueues[i]
			desired, err := topology.Desired(cq, vhost.RabbitMQ43)
			if err != nil {
				t.Fatal(err)
			}
			want := 1 + len(desired.Exchanges) + len(desired.Queues) + len(desired.Bindings)
			if got := strings.Count(of(t, cq, vhost.RabbitMQ43), "\n") + 1; got != want {
				t.Errorf("%s, %s: %d lines, want %d", vector.Name, cq.Name, got, want)
			}
		}
	}
}
