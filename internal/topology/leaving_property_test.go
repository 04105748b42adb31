package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/specs"
)

// edited is a topology at the broker, and what an edit of its spec wants instead.
type edited struct {
	before, now topology.Topology
	observed    topology.Observed
	owned       []v1alpha1.TopologyEntry
}

func drawEdited(rt *rapid.T, t *testing.T) edited {
	was := specs.ConsumerQueue().Draw(rt, "was")
	spec := was.DeepCopy()
	other := specs.ConsumerQueue().Draw(rt, "other")
	edits := []func(){
		func() { spec.Spec.Bindings = other.Spec.Bindings },
		func() { spec.Spec.Retry = other.Spec.Retry },
		func() { spec.Spec.DeadLetter = other.Spec.DeadLetter },
		func() { spec.Spec.DeadLetterStrategy = other.Spec.DeadLetterStrategy },
		func() { deadLetterOf(spec).Queue = &v1alpha1.DeadLetterQueueSpec{Name: "another dead-letter queue"} },
		func() {
			deadLetterOf(spec).Exchange = &v1alpha1.DeadLetterExchange{Name: "another dead-letter exchange"}
		},
		func() { retryOf(spec).Exchange = &v1alpha1.RetryExchange{Name: "another retry exchange"} },
		func() { retryOf(spec).DelayTiers = []v1alpha1.DelayTier{{Delay: "77s"}} },
		func() {
			if tiers := retryOf(spec).DelayTiers; len(tiers) > 0 {
				tiers[0].QueueName = "another delay tier"
			}
		},
	}
	for range rapid.IntRange(1, 3).Draw(rt, "edits") {
		rapid.SampledFrom(edits).Draw(rt, "edit")()
	}
	before, err := topology.Desired(was, v43)
	if err != nil {
		rt.Fatal(err)
	}
	now, err := topology.Desired(spec, v43)
	if err != nil {
		rt.Skip("the edit is refused")
	}
	return edited{before: before, now: now, observed: observe(t, before), owned: ownedBy(t, before)}
}

func deadLetterOf(cq *v1alpha1.ConsumerQueue) *v1alpha1.DeadLetterSpec {
	if cq.Spec.DeadLetter == nil || cq.Spec.DeadLetter.Policy == v1alpha1.DeadLetterPolicyDisabled {
		cq.Spec.DeadLetter = &v1alpha1.DeadLetterSpec{}
	}
	return cq.Spec.DeadLetter
}

func retryOf(cq *v1alpha1.ConsumerQueue) *v1alpha1.RetrySpec {
	if cq.Spec.Retry == nil || cq.Spec.Retry.Policy == v1alpha1.RetryPolicyNone {
		cq.Spec.Retry = &v1alpha1.RetrySpec{}
	}
	return cq.Spec.Retry
}

// compare is what Diff says now.
func (e *edited) compare() topology.Comparison {
	e.observed.DeadLetters = deadLetters(e.observed)
	return topology.Diff(e.now, e.observed, topology.Context{Owned: e.owned})
}

// remove does what Diff says may go: bindings and exchanges at once, and queues, all of which are empty.
func (e *edited) remove(comparison topology.Comparison) {
	for _, change := range comparison.Changes {
		switch change.Effect {
		case v1alpha1.EffectUnbind:
			unbind(&e.observed, change)
		case v1alpha1.EffectDelete:
			dropExchange(&e.observed, change.Name)
		}
	}
	for _, departure := range comparison.Departures {
		if departure.Entry.Kind == v1alpha1.KindQueue && departure.Blocked == "" {
			dropQueue(&e.observed, departure.Entry.Name)
		}
	}
}

// others puts things at the broker that are not Warren's, and have to do with what is.
func (e *edited) others(rt *rapid.T) {
	o := &e.observed
	exchanges := append(slices.Sorted(maps.Keys(o.Exchanges)), "hub", "")
	queues := append(slices.Sorted(maps.Keys(o.Queues)), "audit")
	keys := []string{"", "#", "k", queues[0]}
	for _, binding := range e.before.Bindings {
		keys = append(keys, binding.RoutingKey)
	}
	exchange, queue, key := rapid.SampledFrom(exchanges), rapid.SampledFrom(queues), rapid.SampledFrom(keys)
	o.Exchanges["hub"] = topology.ObservedExchange{
		Type: rapid.SampledFrom([]string{"fanout", "direct", "topic"}).Draw(rt, "type of hub"), Durable: true,
	}
	if rapid.Bool().Draw(rt, "hub has an alternate exchange") {
		hub := o.Exchanges["hub"]
		hub.Arguments = topology.Arguments{"alternate-exchange": exchange.Draw(rt, "alternate exchange")}
		o.Exchanges["hub"] = hub
	}
	o.Queues["audit"] = topology.ObservedQueue{Durable: true}
	for i := range rapid.IntRange(0, 3).Draw(rt, "queues of others") {
		addDeadLettering(o, fmt.Sprint("theirs", i), exchange.Draw(rt, "dead-letter exchange"), key.Draw(rt, "dead-letter key"))
	}
	for range rapid.IntRange(0, 3).Draw(rt, "bindings of others") {
		binding := topology.ObservedBinding{Source: exchange.Draw(rt, "source"), RoutingKey: key.Draw(rt, "key")}
		binding.ToExchange = rapid.Bool().Draw(rt, "to an exchange")
		binding.Destination = queue.Draw(rt, "queue")
		if binding.ToExchange {
			binding.Destination = exchange.Draw(rt, "destination")
		}
		known := slices.ContainsFunc(o.BindingsFrom[binding.Source], func(b topology.ObservedBinding) bool { return sameBinding(b, binding) })
		if binding.Source != "" && binding.Destination != "" && !known {
			bind(o, binding)
		}
	}
}

// keysOf are the routing keys that make a difference.
func keysOf(o topology.Observed) []string {
	keys := map[string]bool{"": true, "whatever": true}
	for _, bindings := range o.BindingsFrom {
		for _, binding := range bindings {
			keys[binding.RoutingKey] = true
		}
	}
	for queue := range o.Queues {
		keys[queue] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// way is a dead letter: the queue that it is from, and what decides where it goes.
type way struct{ queue, key, reason string }

// ways are the dead letters that come to some queue.
func ways(o topology.Observed, keys []string) []way {
	var found []way
	for _, from := range deadLetters(o) {
		for _, key := range keys {
			if from.RoutingKey != nil {
				key = *from.RoutingKey
			}
			for _, reason := range []string{"rejected", "expired", "delivery_limit", "maxlen"} {
				if len(arrives(o, from.Exchange, letter{key, reason})) > 0 {
					found = append(found, way{from.Queue, key, reason})
				}
			}
		}
	}
	return found
}

// TestNoDeadLetterLosesItsWay: whatever leaves the spec, and whoever else dead-letters to it, a dead letter that came to a
// queue before still comes to one, unless its queue is gone; and nothing that is wanted goes.
func TestNoDeadLetterLosesItsWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdited(rt, t)
		e.others(rt)
		for round := range 3 {
			comparison := e.compare()
			if round > 0 && !comparison.Recreate() {
				declare(t, &e.observed, e.now)
				comparison = e.compare()
			}
			keys, sources := keysOf(e.observed), sourcesOf(e.observed, e.owned)
			before := ways(e.observed, keys)
			e.remove(comparison)
			after := ways(e.observed, keys)
			for _, way := range before {
				if _, exists := e.observed.Queues[way.queue]; exists && !slices.Contains(after, way) {
					rt.Fatalf("round %d: the dead letter %v is lost", round, way)
				}
			}
			for _, departure := range comparison.Departures {
				if e.now.Wants(departure.Entry) {
					rt.Errorf("%v is wanted and yet departs", departure.Entry)
				}
			}
			wantEqual(rt, "source exchanges", sources, sourcesOf(e.observed, e.owned))
		}
	})
}

// sourcesOf are the source exchanges among what a topology owned that are there.
func sourcesOf(o topology.Observed, owned []v1alpha1.TopologyEntry) []string {
	var names []string
	for _, entry := range owned {
		if entry.Kind == v1alpha1.KindExchange && entry.Role == v1alpha1.RoleSource && o.Has(entry) {
			names = append(names, entry.Name)
		}
	}
	return names
}

// TestAnEditEndsInWhatItWants: declaring what is missing and taking away what may go ends in just what the spec wants,
// as if it had been so from the beginning, and in the source exchanges of before.
func TestAnEditEndsInWhatItWants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdited(rt, t)
		if e.compare().Recreate() {
			rt.Skip("something must be recreated")
		}
		for range 5 {
			declare(t, &e.observed, e.now)
			e.remove(e.compare())
		}
		comparison := e.compare()
		for _, change := range comparison.Changes {
			wantEqual(rt, "effect of "+change.Message, v1alpha1.EffectNone, change.Effect) // what others have to declare
		}
		wantEqual(rt, "departures", nil, comparison.Departures)
		want := observe(t, e.now)
		for _, exchange := range e.before.Exchanges {
			if exchange.Role == v1alpha1.RoleSource {
				want.Exchanges[exchange.Name] = e.observed.Exchanges[exchange.Name]
			}
		}
		wantEqual(rt, "vhost", contents(want), contents(e.observed))
	})
}

// TestDismantleLeavesNothing: taking away step by step what a topology owned ends in an empty vhost, but for the exchanges
// that messages come from.
func TestDismantleLeavesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdited(rt, t)
		none := func(v1alpha1.TopologyEntry) string { return "" }
		var step topology.Dismantling
		for range 5 {
			e.observed.DeadLetters = deadLetters(e.observed)
			step = topology.Dismantle(e.owned, e.observed, none, nil)
			wantEqual(rt, "fed by", "", step.WorkFedBy)
			queues := step.Work
			if len(queues) == 0 {
				queues = step.DeadLetter
			}
			for _, name := range queues {
				dropQueue(&e.observed, name)
			}
			if len(queues) > 0 {
				continue
			}
			for _, binding := range step.Bindings {
				unbind(&e.observed, v1alpha1.Change{
					Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments.JSON(),
				})
			}
			for _, name := range step.Exchanges {
				dropExchange(&e.observed, name)
			}
		}
		wantEqual(rt, "the last step", topology.Dismantling{}, step)
		want := topology.Observed{Exchanges: map[string]topology.ObservedExchange{}}
		for _, name := range sourcesOf(observe(t, e.before), e.owned) {
			want.Exchanges[name] = observe(t, e.before).Exchanges[name]
		}
		wantEqual(rt, "vhost", contents(want), contents(e.observed))
	})
}

// contents lists what is at a broker.
func contents(o topology.Observed) []string {
	lines := []string{}
	for name, exchange := range o.Exchanges {
		lines = append(lines, fmt.Sprintf("exchange %q: %s", name, exchange.Type))
	}
	for name, queue := range o.Queues {
		lines = append(lines, fmt.Sprintf("queue %q: %s", name, queue.Arguments.JSON()))
	}
	for _, bindings := range o.BindingsFrom {
		for _, b := range bindings {
			lines = append(lines, fmt.Sprintf("binding %q to %q (%t): %q %s", b.Source, b.Destination, b.ToExchange, b.RoutingKey, b.Arguments.JSON()))
		}
	}
	slices.Sort(lines)
	return lines
}
