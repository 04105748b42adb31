package topology_test

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
)

// The versions that tests go through: every one at which something changes, and some in between.
var (
	v39  = topology.Version{Major: 3, Minor: 9}
	v310 = topology.Version{Major: 3, Minor: 10}
	v312 = topology.Version{Major: 3, Minor: 12}
	v313 = topology.Version{Major: 3, Minor: 13}
	v40  = topology.Version{Major: 4, Minor: 0}
	v42  = topology.Version{Major: 4, Minor: 2}
	v43  = topology.Version{Major: 4, Minor: 3}

	versions = []topology.Version{v310, v312, v313, v40, v42, v43}
)

// consumerQueue is a ConsumerQueue named orders with a spec as a user writes it.
func consumerQueue(t testing.TB, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Name = "orders"
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		t.Fatalf("spec: %v", err)
	}
	return cq
}

func desired(t *testing.T, spec string, version topology.Version) topology.Topology {
	t.Helper()
	got, err := topology.Desired(consumerQueue(t, spec), version)
	if err != nil {
		t.Fatalf("Desired on %s: %v", version, err)
	}
	return got
}

// describe renders a topology with one line for each object, so that a table of tests can be read. Every queue is a
// quorum queue: x-queue-type is checked and left out.
func describe(t *testing.T, topo topology.Topology) string {
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
		if queue.Arguments[topology.ArgQueueType] != "quorum" {
			t.Errorf("queue %q: x-queue-type is %v", queue.Name, queue.Arguments[topology.ArgQueueType])
		}
		line := fmt.Sprintf("queue %s: %s", queue.Name, queue.Role)
		for _, key := range queue.Arguments.Keys() {
			if key != topology.ArgQueueType {
				line += fmt.Sprintf(", %s=%v", key, queue.Arguments[key])
			}
		}
		lines = append(lines, line)
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

// trimmed drops the indentation of a raw string.
func trimmed(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// observe is what a broker has after a topology was declared on it, with the bindings of each exchange and queue in
// reverse order and numbers as they come out of JSON.
func observe(t testing.TB, topologies ...topology.Topology) topology.Observed {
	t.Helper()
	observed := topology.Observed{
		Exchanges:    map[string]topology.ObservedExchange{},
		Queues:       map[string]topology.ObservedQueue{},
		BindingsTo:   map[string][]topology.ObservedBinding{},
		BindingsFrom: map[string][]topology.ObservedBinding{},
	}
	for _, topo := range topologies {
		for _, exchange := range topo.Exchanges {
			kind := string(exchange.Type)
			if !exchange.Declare {
				kind = "topic"
			}
			observed.Exchanges[exchange.Name] = topology.ObservedExchange{Type: kind, Durable: true}
		}
		for _, queue := range topo.Queues {
			observed.Queues[queue.Name] = topology.ObservedQueue{Durable: true, Arguments: throughJSON(t, queue.Arguments)}
		}
		for _, binding := range topo.Bindings {
			bind(&observed, topology.ObservedBinding{
				Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey,
				Arguments: throughJSON(t, binding.Arguments),
			})
		}
	}
	return observed
}

func bind(observed *topology.Observed, binding topology.ObservedBinding) {
	if !binding.ToExchange {
		observed.BindingsTo[binding.Destination] = append([]topology.ObservedBinding{binding}, observed.BindingsTo[binding.Destination]...)
	}
	observed.BindingsFrom[binding.Source] = append([]topology.ObservedBinding{binding}, observed.BindingsFrom[binding.Source]...)
}

// throughJSON makes every number a json.Number and an empty set of arguments an empty map, as a broker's answer has them.
func throughJSON(t testing.TB, arguments topology.Arguments) topology.Arguments {
	t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	read := topology.Arguments{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&read); err != nil {
		t.Fatal(err)
	}
	return read
}

func equal[T any](t *testing.T, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if difference := cmp.Diff(want, got, options...); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}
