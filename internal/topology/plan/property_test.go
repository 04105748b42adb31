package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/specgen"
)

// TestAnySpecBecomesATopology also checks that Diff finds nothing in a declared topology, whatever types its numbers and
// arguments have in the broker's response.
func TestAnySpecBecomesATopology(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		cq := specgen.ConsumerQueue().Draw(rt, "ConsumerQueue")
		version := rapid.SampledFrom(topologytest.Versions).Draw(rt, "version")
		topo, err := topology.Desired(cq, version)
		var refusal *topology.Refusal
		switch {
		case err == nil:
		case version == topologytest.V43 || !errors.As(err, &refusal) || refusal.Reason == v1alpha1.ReasonInvalidSpec:
			rt.Fatalf("Desired on %s: %v", version, err)
		default:
			return // an older broker may refuse
		}
		for _, queue := range topo.Queues {
			for name := range queue.Arguments {
				wantKnown(rt, name, version)
			}
		}
		again, err := topology.Desired(cq, version)
		topologytest.Equal(rt, "the same again", topo, again)
		topologytest.Equal(rt, "error", nil, err)

		got := plan.Diff(topo, declaredIn(rt, t, topo), plan.Input{})
		topologytest.Equal(rt, "changes", nil, got.Changes)
		topologytest.Equal(rt, "missing", "", got.MissingReturn)
		for _, entry := range got.Entries {
			topologytest.Equal(rt, "state", v1alpha1.StateInSync, entry.State)
		}
		topologytest.Equal(rt, "entries", len(topologytest.Owned(topo)), len(got.Entries))
	})
}

// wantKnown: every argument that Desired sets is in the table, except arguments from the spec.
func wantKnown(rt *rapid.T, name string, version vhost.Version) {
	if len(name) > 6 && name[:6] == "x-own-" {
		return
	}
	at := slices.IndexFunc(topology.ArgumentTable, func(row topology.Argument) bool { return row.Name == name })
	if at < 0 {
		rt.Fatalf("argument %s is not in the table of arguments", name)
	}
	if since := topology.ArgumentTable[at].Since; !version.AtLeast(since) {
		rt.Fatalf("argument %s is of RabbitMQ %s and set for %s", name, since, version)
	}
}

// TestAnySingleChangeIsFound makes one change to a declared topology. Diff finds exactly this change, at the right object and
// with the right effect.
func TestAnySingleChangeIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		cq := specgen.ConsumerQueue().Draw(rt, "ConsumerQueue")
		topo, err := topology.Desired(cq, topologytest.V43)
		if err != nil {
			rt.Fatal(err)
		}
		observed := declaredIn(rt, t, topo)
		mutations := []func(*rapid.T, topology.Topology, vhost.Observed) []v1alpha1.Change{
			removeExchange, removeQueue, removeBinding, changeExchange, changeArgument, addArgument, removeArgument, addForeign,
		}
		want := rapid.SampledFrom(mutations).Draw(rt, "mutation")(rt, topo, observed)
		got := plan.Diff(topo, observed, plan.Input{}).Changes
		for i := range got {
			if got[i].Message == "" {
				rt.Errorf("change without a message: %v", got[i])
			}
			got[i].Message = ""
		}
		topologytest.Equal(rt, "changes", want, got)
	})
}

type (
	change  = v1alpha1.Change
	changes = []v1alpha1.Change
)

func removeExchange(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	if len(topo.Exchanges) == 0 {
		return nil
	}
	exchange := rapid.SampledFrom(topo.Exchanges).Draw(rt, "exchange")
	delete(observed.Exchanges, exchange.Name)
	effect := v1alpha1.EffectDeclare
	if !exchange.Declare {
		effect = v1alpha1.EffectNone
	}
	return changes{{Kind: v1alpha1.KindExchange, Name: exchange.Name, Effect: effect}}
}

func removeQueue(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	queue := rapid.SampledFrom(topo.Queues).Draw(rt, "queue")
	delete(observed.Queues, queue.Name)
	return changes{{Kind: v1alpha1.KindQueue, Name: queue.Name, Effect: v1alpha1.EffectDeclare}}
}

func removeBinding(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	if len(topo.Bindings) == 0 {
		return nil
	}
	binding := rapid.SampledFrom(topo.Bindings).Draw(rt, "binding")
	gone := func(found vhost.Binding) bool {
		return binding.ID() == topology.Binding{
			Source: found.Source, Destination: found.Destination, RoutingKey: found.RoutingKey, Arguments: found.Arguments,
		}.ID()
	}
	observed.BindingsTo[binding.Destination] = slices.DeleteFunc(slices.Clone(observed.BindingsTo[binding.Destination]), gone)
	observed.BindingsFrom[binding.Source] = slices.DeleteFunc(slices.Clone(observed.BindingsFrom[binding.Source]), gone)
	return changes{{
		Kind: v1alpha1.KindBinding, Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey,
		Arguments: binding.Arguments.JSON(), Effect: v1alpha1.EffectBind,
	}}
}

func changeExchange(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	if len(topo.Exchanges) == 0 {
		return nil
	}
	exchange := rapid.SampledFrom(topo.Exchanges).Draw(rt, "exchange")
	found := observed.Exchanges[exchange.Name]
	want := change{Kind: v1alpha1.KindExchange, Name: exchange.Name, Effect: v1alpha1.EffectRecreate}
	want.Path = rapid.SampledFrom([]string{"type", "durable", "autoDelete", "internal"}).Draw(rt, "property")
	want.Desired, want.Observed = "false", "true"
	switch want.Path {
	case "type":
		found.Type = "x-consistent-hash"
		want.Desired, want.Observed = string(exchange.Type), found.Type
	case "durable":
		found.Durable = false
		want.Desired, want.Observed = "true", "false"
	case "autoDelete":
		found.AutoDelete = true
	case "internal":
		found.Internal = true
	}
	observed.Exchanges[exchange.Name] = found
	if !exchange.Declare {
		return nil // an object of another program
	}
	return changes{want}
}

func changeArgument(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	queue := rapid.SampledFrom(topo.Queues).Draw(rt, "queue")
	name := rapid.SampledFrom(queue.Arguments.Keys()).Draw(rt, "argument")
	old, value := queue.Arguments[name], any(nil)
	for value = otherValue(rt); fmt.Sprintf("%T %v", value, value) == fmt.Sprintf("%T %v", old, old); {
		value = "different"
	}
	observed.Queues[queue.Name].Arguments[name] = value
	return changes{{
		Kind: v1alpha1.KindQueue, Name: queue.Name, Path: "arguments." + name, Desired: shown(old), Observed: shown(value),
		Effect: v1alpha1.EffectRecreate,
	}}
}

func addArgument(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	queue := rapid.SampledFrom(topo.Queues).Draw(rt, "queue")
	names := []string{"x-further", "alternate"}
	for _, row := range topology.ArgumentTable {
		if _, set := queue.Arguments[row.Name]; !set {
			names = append(names, row.Name)
		}
	}
	name, value := rapid.SampledFrom(names).Draw(rt, "argument"), otherValue(rt)
	observed.Queues[queue.Name].Arguments[name] = value
	return changes{{
		Kind: v1alpha1.KindQueue, Name: queue.Name, Path: "arguments." + name, Observed: shown(value), Effect: v1alpha1.EffectRecreate,
	}}
}

func removeArgument(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	queue := rapid.SampledFrom(topo.Queues).Draw(rt, "queue")
	name := rapid.SampledFrom(queue.Arguments.Keys()).Draw(rt, "argument")
	delete(observed.Queues[queue.Name].Arguments, name)
	return changes{{
		Kind: v1alpha1.KindQueue, Name: queue.Name, Path: "arguments." + name, Desired: shown(queue.Arguments[name]),
		Effect: v1alpha1.EffectRecreate,
	}}
}

func addForeign(rt *rapid.T, topo topology.Topology, observed vhost.Observed) changes {
	queue := rapid.SampledFrom(topo.Queues).Draw(rt, "queue")
	topologytest.Bind(&observed, vhost.Binding{Source: "somebody else's", Destination: queue.Name, RoutingKey: "#"})
	entries := plan.Diff(topo, observed, plan.Input{}).Entries
	topologytest.Equal(rt, "the foreign binding", v1alpha1.TopologyEntry{
		Kind: v1alpha1.KindBinding, Source: "somebody else's", Destination: queue.Name, RoutingKey: "#", State: v1alpha1.StateForeign,
	}, entries[len(entries)-1].TopologyEntry)
	return nil
}

// otherValue returns a value that no argument of a topology has, in normalized form.
func otherValue(rt *rapid.T) any {
	return rapid.SampledFrom([]any{int64(-7), "other", true, 0.5, int64(1) << 40, "7", ""}).Draw(rt, "value")
}

func shown(value any) string {
	if text, isString := value.(string); isString && text != "" && !json.Valid([]byte(text)) {
		return text
	}
	encoded, _ := json.Marshal(value)
	return string(encoded)
}

// declaredIn returns the broker's state after the declaration: numbers of any width, empty sets as nil or not, in any order, and
// with the return route in place.
func declaredIn(rt *rapid.T, t *testing.T, topo topology.Topology) vhost.Observed {
	observed := topologytest.Observe(t, topo)
	for name, queue := range observed.Queues {
		queue.Arguments = asReceived(rt, queue.Arguments)
		observed.Queues[name] = queue
	}
	for name, bindings := range observed.BindingsTo {
		bindings = slices.Clone(bindings)
		for i := range bindings {
			bindings[i].Arguments = asReceived(rt, bindings[i].Arguments)
		}
		observed.BindingsTo[name] = rapid.Permutation(bindings).Draw(rt, "order")
	}
	if topo.Return != nil {
		observed.Exchanges[topo.Return.Exchange] = vhost.Exchange{Type: "fanout", Durable: true}
		observed.BindingsFrom[topo.Return.Exchange] = []vhost.Binding{{Source: topo.Return.Exchange, Destination: topo.Return.Queue}}
	}
	return observed
}

func asReceived(rt *rapid.T, arguments vhost.Arguments) vhost.Arguments {
	received := vhost.Arguments{}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		received[name] = arguments[name]
		if number, isNumber := arguments[name].(json.Number); isNumber {
			received[name] = inSomeWidth(rt, number)
		}
	}
	if len(received) == 0 && rapid.Bool().Draw(rt, "no arguments are nil") {
		return nil
	}
	if rapid.Bool().Draw(rt, "normalized") {
		return vhost.Normalize(received)
	}
	return received
}

func inSomeWidth(rt *rapid.T, received json.Number) any {
	number, err := received.Int64()
	if err != nil {
		rt.Fatal(err)
	}
	widths := []any{received, number}
	if -1<<53 < number && number < 1<<53 {
		widths = append(widths, float64(number))
	}
	if int64(int32(number)) == number {
		widths = append(widths, int32(number), int(number))
	}
	if number >= 0 {
		widths = append(widths, uint64(number))
	}
	return rapid.SampledFrom(widths).Draw(rt, "width")
}

func TestPlanHashIsOfTheSetOfChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		topo, err := topology.Desired(specgen.ConsumerQueue().Draw(rt, "ConsumerQueue"), topologytest.V43)
		if err != nil {
			rt.Fatal(err)
		}
		all := plan.Diff(topo, vhost.Observed{}, plan.Input{}).Changes
		shuffled := rapid.Permutation(all).Draw(rt, "shuffled")
		for i := range shuffled {
			shuffled[i].Message = rapid.String().Draw(rt, "message")
		}
		topologytest.Equal(rt, "hash of another order and other messages", plan.Hash(all), plan.Hash(shuffled))

		other := slices.Clone(all)
		at := rapid.IntRange(0, len(all)-1).Draw(rt, "changed")
		switch rapid.IntRange(0, 7).Draw(rt, "field") {
		case 0:
			other[at].Name += "x"
		case 1:
			other[at].Source += "x"
		case 2:
			other[at].RoutingKey += "x"
		case 3:
			other[at].Arguments += "x"
		case 4:
			other[at].Path += "x"
		case 5:
			other[at].Effect = v1alpha1.EffectRecreate
		case 6:
			other[at].Desired += "x"
		case 7:
			other = slices.Delete(other, at, at+1)
		}
		if plan.Hash(all) == plan.Hash(other) {
			rt.Errorf("the same hash for %v and %v", all, other)
		}
	})
}
