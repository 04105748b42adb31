// Package topologytest builds specs and topologies for tests, and changes an in-memory vhost as a broker does.
package topologytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// The versions that tests use: every version at which topologies change, and some in between.
var (
	V39  = vhost.Version{Major: 3, Minor: 9}
	V310 = vhost.Version{Major: 3, Minor: 10}
	V312 = vhost.Version{Major: 3, Minor: 12}
	V313 = vhost.Version{Major: 3, Minor: 13}
	V40  = vhost.Version{Major: 4, Minor: 0}
	V42  = vhost.Version{Major: 4, Minor: 2}
	V43  = vhost.Version{Major: 4, Minor: 3}

	Versions = []vhost.Version{V310, V312, V313, V40, V42, V43}
)

// Parts of specs that many cases share. Alone is a main queue without retry and dead-lettering.
const (
	Alone   = "retry: {policy: None}\ndeadLetter: {policy: Disabled}\n"
	NoRetry = "retry: {policy: None}\n"
)

// ConsumerQueue returns a ConsumerQueue named orders with this spec in YAML.
func ConsumerQueue(t testing.TB, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Name = "orders"
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		t.Fatalf("spec: %v", err)
	}
	return cq
}

// Desired returns the topology of a spec, which must be valid.
func Desired(t testing.TB, spec string, version vhost.Version) topology.Topology {
	t.Helper()
	got, err := topology.Desired(ConsumerQueue(t, spec), version)
	if err != nil {
		t.Fatalf("Desired on %s: %v", version, err)
	}
	return got
}

// Describe formats a topology with one line per object, so that tables of tests are readable. It checks that each queue is a
// quorum queue, and omits x-queue-type.
func Describe(t testing.TB, topo topology.Topology) string {
	t.Helper()
	var lines []string
	for _, exchange := range topo.Exchanges {
		switch {
		case exchange.Declare:
			lines = append(lines, fmt.Sprintf("exchange %s: %s, %s", exchange.Name, exchange.Role, exchange.Type))
		case exchange.Type == "":
			lines = append(lines, fmt.Sprintf("exchange %s: %s, must exist", exchange.Name, exchange.Role))
		default:
			t.Errorf("exchange %q is not to be declared and yet has type %q", exchange.Name, exchange.Type)
		}
	}
	for _, queue := range topo.Queues {
		if queue.Arguments[vhost.ArgQueueType] != "quorum" {
			t.Errorf("queue %q: x-queue-type is %v", queue.Name, queue.Arguments[vhost.ArgQueueType])
		}
		parts := []string{fmt.Sprintf("queue %s: %s", queue.Name, queue.Role)}
		for _, key := range queue.Arguments.Keys() {
			if key != vhost.ArgQueueType {
				parts = append(parts, fmt.Sprintf("%s=%v", key, queue.Arguments[key]))
			}
		}
		lines = append(lines, strings.Join(parts, ", "))
	}
	for _, binding := range topo.Bindings {
		line := fmt.Sprintf("binding %s -> %s: %s, %q", binding.Source, binding.Destination, binding.Role, binding.RoutingKey)
		if len(binding.Arguments) > 0 {
			line += " " + binding.Arguments.JSON()
		}
		lines = append(lines, line)
	}
	if topo.Return != nil {
		lines = append(lines, fmt.Sprintf("return %s -> %s: %q", topo.Return.Exchange, topo.Return.Queue, topo.Return.Keys))
	}
	return strings.Join(lines, "\n")
}

// Trimmed removes the indentation of a raw string.
func Trimmed(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Observe returns the broker's objects after these topologies were declared. The bindings of each exchange and queue are in
// reverse order, and numbers are as decoded from JSON.
func Observe(t testing.TB, topologies ...topology.Topology) vhost.Observed {
	t.Helper()
	observed := vhost.Observed{
		Exchanges:    map[string]vhost.Exchange{},
		Queues:       map[string]vhost.Queue{},
		BindingsTo:   map[string][]vhost.Binding{},
		BindingsFrom: map[string][]vhost.Binding{},
	}
	for _, topo := range topologies {
		for _, exchange := range topo.Exchanges {
			kind := string(exchange.Type)
			if !exchange.Declare {
				kind = "topic"
			}
			observed.Exchanges[exchange.Name] = vhost.Exchange{Type: kind, Durable: true}
		}
		for _, queue := range topo.Queues {
			observed.Queues[queue.Name] = vhost.Queue{Durable: true, Arguments: ThroughJSON(t, queue.Arguments)}
		}
		for _, binding := range topo.Bindings {
			Bind(&observed, vhost.Binding{
				Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey,
				Arguments: ThroughJSON(t, binding.Arguments),
			})
		}
	}
	return observed
}

// Bind inserts a binding before the existing ones.
func Bind(observed *vhost.Observed, binding vhost.Binding) {
	if !binding.ToExchange {
		observed.BindingsTo[binding.Destination] = append([]vhost.Binding{binding}, observed.BindingsTo[binding.Destination]...)
	}
	observed.BindingsFrom[binding.Source] = append([]vhost.Binding{binding}, observed.BindingsFrom[binding.Source]...)
}

// ThroughJSON encodes and decodes arguments as a broker's response does: numbers become json.Number, and an empty set an empty
// map.
func ThroughJSON(t testing.TB, arguments vhost.Arguments) vhost.Arguments {
	t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	read := vhost.Arguments{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&read); err != nil {
		t.Fatal(err)
	}
	return read
}

// Equal reports a difference between want and got as an error of the test.
func Equal[T any](t reporter, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if difference := cmp.Diff(want, got, options...); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// reporter is a test, or a check of a property.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Owned returns the entries of a topology that Warren declared, as a status records them.
func Owned(topo topology.Topology) []v1alpha1.TopologyEntry {
	var entries []v1alpha1.TopologyEntry
	add := func(id vhost.ID, role v1alpha1.Role, hash string) {
		entry := topology.EntryOf(id)
		entry.Role, entry.State, entry.LastSyncedHash = role, v1alpha1.StateInSync, hash
		if entry.Kind != v1alpha1.KindBinding {
			entry.Origin = v1alpha1.OriginDeclared
		}
		entries = append(entries, entry)
	}
	for _, exchange := range topo.Exchanges {
		add(exchange.ID(), exchange.Role, exchange.Hash())
	}
	for _, queue := range topo.Queues {
		add(queue.ID(), queue.Role, queue.Hash())
	}
	for _, binding := range topo.Bindings {
		add(binding.ID(), binding.Role, binding.Hash())
	}
	return entries
}
