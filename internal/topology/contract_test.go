package topology_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
)

func TestContractOfAnEmptySpecIsTheDefault(t *testing.T) {
	t.Parallel()
	cq := topologytest.ConsumerQueue(t, `{}`)
	got, err := topology.ContractOf(cq, "/", topologytest.V43)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "contract", contract.Default(cq.Name), got)
}

func TestContractOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec    string
		version vhost.Version
		want    string
	}{
		"Publish with a retry exchange and a direct DLX": {
			spec:    `{retry: {maxAttempts: 3, exchange: {name: again}, delayTiers: [{delay: 90m, routingKey: later}]}, deadLetter: {exchange: {type: direct}, routingKey: dead}, queue: {singleActiveConsumer: true, consumerTimeout: 2h}}`,
			version: topologytest.V43,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "Publish", "maxAttempts": 3,
				"tiers": [{"delayMilliseconds": 5400000, "exchange": "again", "routingKey": "later"}], "park": {"exchange": "orders.dlx", "routingKey": "dead"},
				"deadLetterQueue": "orders.dlq", "rejectDeadLetters": true, "singleActiveConsumer": true, "consumerTimeoutMilliseconds": 7200000}`,
		},
		"Publish tries once more than there are delays": {
			spec: `{retry: {delayTiers: [{delay: 30s}]}}`, version: topologytest.V43,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "Publish", "maxAttempts": 2,
				"tiers": [{"delayMilliseconds": 30000, "exchange": "", "routingKey": "orders.retry.30s"}], "park": {"exchange": "orders.dlx", "routingKey": ""},
				"deadLetterQueue": "orders.dlq", "rejectDeadLetters": true, "singleActiveConsumer": false}`,
		},
		"Reject by reason parks through the default exchange": {
			spec: `{retry: {strategy: Reject}}`, version: topologytest.V43,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "Reject", "maxAttempts": 5,
				"tiers": [{"delayMilliseconds": 30000, "exchange": "", "routingKey": "orders.retry.30s"}], "park": {"exchange": "", "routingKey": "orders.dlq"},
				"deadLetterQueue": "orders.dlq", "rejectDeadLetters": false, "singleActiveConsumer": false}`,
		},
		"Reject on 3.10 parks at the DLX": {
			spec: `{retry: {strategy: Reject}}`, version: topologytest.V310,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "Reject", "maxAttempts": 5,
				"tiers": [{"delayMilliseconds": 30000, "exchange": "", "routingKey": "orders.retry.30s"}], "park": {"exchange": "orders.dlx", "routingKey": ""},
				"deadLetterQueue": "orders.dlq", "rejectDeadLetters": false, "singleActiveConsumer": false}`,
		},
		"Requeue with a redelivery delay": {
			spec: `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 1m}}}`, version: topologytest.V43,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "Requeue", "maxAttempts": 5,
				"park": {"exchange": "orders.dlx", "routingKey": ""}, "deadLetterQueue": "orders.dlq", "rejectDeadLetters": true,
				"singleActiveConsumer": false, "redeliveryDelay": {"minMilliseconds": 1000, "maxMilliseconds": 60000}}`,
		},
		"no retry": {
			spec: `{retry: {policy: None}}`, version: topologytest.V43,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "None", "maxAttempts": 1,
				"park": {"exchange": "orders.dlx", "routingKey": ""}, "deadLetterQueue": "orders.dlq", "rejectDeadLetters": true, "singleActiveConsumer": false}`,
		},
		"no dead letters": {
			spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`, version: topologytest.V43,
			want: `{"apiVersion": "contract.warren.dev/v1", "queue": "orders", "virtualHost": "/", "strategy": "None", "maxAttempts": 1,
				"rejectDeadLetters": false, "singleActiveConsumer": false}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := topology.ContractOf(topologytest.ConsumerQueue(t, test.spec), "/", test.version)
			topologytest.Equal(t, "error", nil, err)
			document, err := json.Marshal(got)
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "contract", decoded(t, test.want), decoded(t, string(document)))
		})
	}
}

func decoded(t *testing.T, document string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(document), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Every ConsumerQueue has a valid contract, and each route in it leads to exactly its queue.
func TestRoutesOfContractsLeadToTheirQueues(t *testing.T) {
	t.Parallel()
	for _, vector := range conformance.Load(t) {
		for _, version := range topologytest.Versions {
			t.Run(vector.Name+" on "+version.String(), func(t *testing.T) {
				t.Parallel()
				for i := range vector.ConsumerQueues {
					cq := &vector.ConsumerQueues[i]
					desired, err := topology.Desired(cq, version)
					if err != nil {
						continue // refused, as TestConformance expects
					}
					kept, err := topology.ContractOf(cq, "/", version)
					topologytest.Equal(t, "error", nil, err)
					topologytest.Equal(t, "wrong with the contract", nil, kept.Validate())
					observed := topologytest.Observe(t, desired)
					for _, tier := range kept.Tiers {
						queue := onlyQueue(t, observed, tier.Route)
						want := vhost.Arguments{vhost.ArgMessageTTL: time.Duration(tier.Delay).Milliseconds()}
						got := vhost.Arguments{vhost.ArgMessageTTL: observed.Queues[queue].Arguments[vhost.ArgMessageTTL]}
						topologytest.Equal(t, queue+": delay", want.JSON(), got.JSON())
					}
					if kept.Park != nil {
						topologytest.Equal(t, "parked in", kept.DeadLetterQueue, onlyQueue(t, observed, *kept.Park))
					}
				}
			})
		}
	}
}

func onlyQueue(t *testing.T, observed vhost.Observed, route contract.Route) string {
	t.Helper()
	if route.Exchange == "" {
		return route.RoutingKey
	}
	queues, known := observed.Route(route.Exchange, route.RoutingKey)
	if !known || len(queues) != 1 {
		t.Fatalf("route %v leads to %v", route, queues)
	}
	return queues[0]
}
