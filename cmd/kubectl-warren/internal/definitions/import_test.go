package definitions_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/definitions"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
)

// fileOf returns the file of a vector's state, as a broker writes it.
func fileOf(t testing.TB, state conformance.State) definitions.File {
	t.Helper()
	file := definitions.File{}
	for _, exchange := range state.Exchanges {
		file.Exchanges = append(file.Exchanges, definitions.Exchange{Name: exchange.Name, Type: exchange.Type, Durable: true})
	}
	for _, queue := range state.Queues {
		file.Queues = append(file.Queues, definitions.Queue{Name: queue.Name, Durable: true, Arguments: queue.Arguments})
	}
	for _, b := range state.Bindings {
		file.Bindings = append(file.Bindings, definitions.Binding{
			Source: b.Source, Destination: b.Destination, DestinationType: "queue", RoutingKey: b.RoutingKey, Arguments: b.Arguments,
		})
	}
	content, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	file, err = definitions.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// sorted ignores the order of objects.
var sorted = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.SortSlices(func(a, b definitions.Exchange) bool { return a.Name < b.Name }),
	cmpopts.SortSlices(func(a, b definitions.Queue) bool { return a.Name < b.Name }),
	cmpopts.SortSlices(func(a, b definitions.Binding) bool {
		return a.Source+a.Destination+a.RoutingKey+a.Arguments.JSON() < b.Source+b.Destination+b.RoutingKey+b.Arguments.JSON()
	}),
}

// Import recognises the topologies that Warren declares, for each strategy and seed: the imported ConsumerQueues declare the
// same.
func TestVectorsComeBack(t *testing.T) {
	t.Parallel()
	for _, vector := range conformance.Load(t) {
		for _, version := range topologytest.Versions {
			state, supported := vector.Expect(version)
			if !supported {
				continue
			}
			t.Run(vector.Name+" on "+version.String(), func(t *testing.T) {
				t.Parallel()
				file := fileOf(t, state)
				queues, findings := definitions.Import(file, definitions.Options{Version: version})
				if len(queues) != len(vector.ConsumerQueues) {
					t.Errorf("%d ConsumerQueues, want %d", len(queues), len(vector.ConsumerQueues))
				}
				for _, finding := range findings {
					if finding.Kind != definitions.Assumed {
						t.Errorf("%s: %s", finding.Kind, finding.Message)
					}
				}
				topologies := make([]topology.Topology, len(queues))
				for i, cq := range queues {
					var err error
					if topologies[i], err = topology.Desired(cq, version); err != nil {
						t.Fatal(err)
					}
				}
				again, missing := definitions.Of(topologies, "")
				if difference := cmp.Diff(file, again, sorted); difference != "" {
					t.Errorf("file (-given +from the ConsumerQueues):\n%s", difference)
				}
				if len(missing) > 0 {
					t.Errorf("missing exchanges: %q", missing)
				}
			})
		}
	}
}

// imported returns the result of Import: the specs as YAML by name, and the findings.
func imported(t *testing.T, content string, version vhost.Version) (specs map[string]string, findings []string) {
	t.Helper()
	file, err := definitions.Parse([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	queues, found := definitions.Import(file, definitions.Options{Version: version})
	specs = map[string]string{}
	for _, cq := range queues {
		text, err := yaml.Marshal(cq.Spec)
		if err != nil {
			t.Fatal(err)
		}
		specs[cq.Name] = string(text)
	}
	for _, finding := range found {
		findings = append(findings, string(finding.Kind)+": "+finding.Message)
	}
	return specs, findings
}

func queue(name, arguments string) string {
	return `{"name": "` + name + `", "durable": true, "auto_delete": false, "arguments": {` + arguments + `}}`
}

func exchange(name, kind string) string {
	return `{"name": "` + name + `", "type": "` + kind + `", "durable": true, "auto_delete": false, "internal": false, "arguments": {}}`
}

func binding(source, destination, key string) string {
	return `{"source": "` + source + `", "destination": "` + destination + `", "destination_type": "queue", "routing_key": "` + key + `", "arguments": {}}`
}

func file(exchanges, queues, bindings []string, further ...string) string {
	parts := append([]string{
		`"exchanges": [` + strings.Join(exchanges, ", ") + `]`,
		`"queues": [` + strings.Join(queues, ", ") + `]`,
		`"bindings": [` + strings.Join(bindings, ", ") + `]`,
	}, further...)
	return "{" + strings.Join(parts, ", ") + "}"
}

const quorum = `"x-queue-type": "quorum"`

func TestImport(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file  string
		specs map[string]string
		// findings are the beginnings of the findings, all of them.
		findings []string
	}{
		"a queue alone": {
			file:  file(nil, []string{queue("orders", quorum)}, nil),
			specs: map[string]string{"orders": "deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault}\nretry: {policy: None}"},
		},
		"the type beside the arguments": {
			file:  file(nil, []string{`{"name": "orders", "type": "quorum", "durable": true, "arguments": {}}`}, nil),
			specs: map[string]string{"orders": "deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault}\nretry: {policy: None}"},
		},
		"a name that Kubernetes does not take": {
			file: file(nil, []string{queue("Orders_EU", quorum), queue("orders-eu", quorum)}, nil),
			specs: map[string]string{
				"orders-eu":   "deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault, name: Orders_EU}\nretry: {policy: None}",
				"orders-eu-2": "deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault, name: orders-eu}\nretry: {policy: None}",
			},
		},
		"a classic queue": {
			file:     file(nil, []string{queue("orders", "")}, nil),
			specs:    map[string]string{"orders": "deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault}\nretry: {policy: None}"},
			findings: []string{`Differs: queue "orders": x-queue-type is classic, should be quorum`},
		},
		"what cannot be a ConsumerQueue": {
			file: file(nil, []string{
				queue("events", `"x-queue-type": "stream"`),
				`{"name": "reply", "durable": false, "auto_delete": true, "arguments": {}}`,
			}, nil),
			specs:    map[string]string{},
			findings: []string{`LeftOut: queue "events" is a stream`, `LeftOut: queue "reply" is transient or auto-delete`},
		},
		"a TTL where no message waits for its retry": {
			file: file([]string{exchange("dead", "fanout")}, []string{
				queue("orders", quorum+`, "x-message-ttl": 60000, "x-dead-letter-exchange": "dead"`), queue("orders.failed", quorum),
			}, []string{binding("dead", "orders.failed", "")}),
			specs: map[string]string{"orders": "deadLetter: {exchange: {name: dead}, queue: {deliveryLimit: BrokerDefault, name: orders.failed}}\n" +
				"deadLetterStrategy: AtMostOnce\nqueue: {messageTTL: 1m}\nretry: {policy: None}"},
			findings: []string{`Assumed: queue "orders" has a TTL and dead-letters to [orders.failed], and is assumed to be a main queue`},
		},
		"a queue whose messages could be lost with the default delivery limit": {
			file: file([]string{exchange("again", "fanout")}, []string{
				queue("orders", quorum+`, "x-dead-letter-exchange": "again", "x-dead-letter-routing-key": ""`),
				queue("wait", quorum+`, "x-message-ttl": 60000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"`),
			}, []string{binding("again", "wait", "")}),
			specs: map[string]string{"orders": "deadLetter: {policy: Disabled}\ndeadLetterStrategy: AtMostOnce\n" +
				"retry: {delayTiers: [{delay: 1m, queueName: wait, routingKey: \"\"}], exchange: {name: again, type: fanout}, strategy: Reject}"},
			findings: []string{
				"Assumed: the strategy is Reject: consumers reject failed messages, and RabbitMQ dead-letters them to wait",
				`Differs: queue "orders": x-delivery-limit is not set, should be -1`,
			},
		},
		"arguments that a ConsumerQueue has no place for": {
			file: file(nil, []string{queue("orders", quorum+`, "x-expires": 1000, "x-max-length": 10, "x-own": "a", "x-list": [1]`)}, nil),
			specs: map[string]string{
				"orders": "deadLetter: {policy: Disabled}\nqueue: {arguments: {x-own: a}, deliveryLimit: BrokerDefault, maxLength: 10}\nretry: {policy: None}",
			},
			findings: []string{
				`Differs: queue "orders": x-expires is 1000, should not be set`, `Differs: queue "orders": x-list is [1], should not be set`,
			},
		},
		"messages that keep their key on a direct dead-letter exchange": {
			file: file([]string{exchange("dead", "direct")}, []string{
				queue("orders", quorum+`, "x-dead-letter-exchange": "dead"`), queue("orders.failed", quorum),
			}, []string{binding("dead", "orders.failed", "order.placed")}),
			specs: map[string]string{"orders": "deadLetter: {exchange: {name: dead, type: direct}, queue: {deliveryLimit: BrokerDefault, name: orders.failed}, " +
				"routingKey: order.placed}\ndeadLetterStrategy: AtMostOnce\nretry: {policy: None}"},
			findings: []string{`Differs: queue "orders": x-dead-letter-routing-key is not set, should be order.placed`},
		},
		"what else a file has": {
			file: file([]string{exchange("shop", "topic"), exchange("all", "fanout")}, []string{queue("orders", quorum)}, []string{
				binding("shop", "orders", "order.*"),
				`{"source": "all", "destination": "shop", "destination_type": "exchange", "routing_key": "", "arguments": {}}`,
			}, `"policies": [{"name": "limits", "pattern": ".*", "definition": {"max-length": 5}}]`),
			specs: map[string]string{"orders": "bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.*]}]\n" +
				"deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault}\nretry: {policy: None}"},
			findings: []string{
				`LeftOut: exchange "all" is not part of a ConsumerQueue`,
				`LeftOut: policy "limits" (max-length) stays in the file`,
				`LeftOut: the binding of exchange "shop" to exchange "all", key "", stays in the file`,
			},
		},
		"an exchange that Warren would not declare so": {
			file: file([]string{`{"name": "shop", "type": "topic", "durable": true, "auto_delete": true, "internal": false, "arguments": {}}`},
				[]string{queue("orders", quorum)}, []string{binding("shop", "orders", "a"), binding("amq.topic", "orders", "b")}),
			specs: map[string]string{"orders": "bindings: [{exchange: {name: shop}, routingKeys: [a]}, {exchange: {name: amq.topic}, routingKeys: [b]}]\n" +
				"deadLetter: {policy: Disabled}\nqueue: {deliveryLimit: BrokerDefault}\nretry: {policy: None}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			specs, findings := imported(t, test.file, vhost.RabbitMQ43)
			want := map[string]any{}
			got := map[string]any{}
			decode(t, test.specs, want)
			decode(t, specs, got)
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("specs (-want +got):\n%s", difference)
			}
			matches := slices.EqualFunc(test.findings, findings, func(want, got string) bool { return strings.HasPrefix(got, want) })
			if !matches {
				t.Errorf("findings are\n%s\nwant\n%s", strings.Join(findings, "\n"), strings.Join(test.findings, "\n"))
			}
		})
	}
}

func decode(t *testing.T, specs map[string]string, into map[string]any) {
	t.Helper()
	for name, text := range specs {
		spec := v1alpha1.ConsumerQueueSpec{}
		if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		into[name] = spec
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	if _, err := definitions.Parse([]byte("queues: []")); err == nil || !strings.Contains(err.Error(), "not a definitions.json") {
		t.Errorf("YAML is taken for JSON: %v", err)
	}
	file, err := definitions.Parse([]byte(`{"rabbitmq_version": "4.3.6", "queues": [{"name": "a", "vhost": "/"}], "exchanges": [{"name": "b", "vhost": "x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if file.Version() != "4.3.6" {
		t.Errorf("version %q", file.Version())
	}
	if difference := cmp.Diff([]string{"/", "x"}, file.VHosts()); difference != "" {
		t.Errorf("vhosts (-want +got):\n%s", difference)
	}
}
