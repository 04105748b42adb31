package plan_test

import (
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

// edited is a topology at the broker, and the topology of its edited spec.
type edited struct {
	before, now topology.Topology
	observed    vhost.Observed
	owned       []v1alpha1.TopologyEntry
}

func drawEdited(rt *rapid.T, t *testing.T) edited {
	was := specgen.ConsumerQueue().Draw(rt, "was")
	spec := was.DeepCopy()
	other := specgen.ConsumerQueue().Draw(rt, "other")
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
	before, err := topology.Desired(was, topologytest.V43)
	if err != nil {
		rt.Fatal(err)
	}
	now, err := topology.Desired(spec, topologytest.V43)
	if err != nil {
		rt.Skip("the edit is refused")
	}
	return edited{before: before, now: now, observed: topologytest.Observe(t, before), owned: topologytest.Owned(before)}
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

// compare returns the current result of Diff.
func (e *edited) compare() plan.Comparison {
	e.observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(e.observed.Queues)
	return plan.Diff(e.now, e.observed, plan.Input{Owned: e.owned})
}

// remove removes the objects that Diff allows to remove. All queues are empty.
func (e *edited) remove(comparison plan.Comparison) {
	for _, change := range comparison.Changes {
		switch change.Effect {
		case v1alpha1.EffectUnbind:
			topologytest.Unbind(&e.observed, change)
		case v1alpha1.EffectDelete:
			topologytest.DropExchange(&e.observed, change.Name)
		}
	}
	for _, orphan := range comparison.Orphans {
		if orphan.Entry.Kind == v1alpha1.KindQueue && !orphan.Blocked() {
			topologytest.DropQueue(&e.observed, orphan.Entry.Name)
		}
	}
}

// others adds objects of other programs that are connected to existing ones.
func (e *edited) others(rt *rapid.T) {
	o := &e.observed
	exchanges := append(slices.Sorted(maps.Keys(o.Exchanges)), "hub", "")
	queues := append(slices.Sorted(maps.Keys(o.Queues)), "audit")
	keys := []string{"", "#", "k", queues[0]}
	for _, binding := range e.before.Bindings {
		keys = append(keys, binding.RoutingKey)
	}
	exchange, queue, key := rapid.SampledFrom(exchanges), rapid.SampledFrom(queues), rapid.SampledFrom(keys)
	o.Exchanges["hub"] = vhost.Exchange{
		Type: rapid.SampledFrom([]string{"fanout", "direct", "topic"}).Draw(rt, "type of hub"), Durable: true,
	}
	if rapid.Bool().Draw(rt, "hub has an alternate exchange") {
		hub := o.Exchanges["hub"]
		hub.Arguments = vhost.Arguments{"alternate-exchange": exchange.Draw(rt, "alternate exchange")}
		o.Exchanges["hub"] = hub
	}
	o.Queues["audit"] = vhost.Queue{Durable: true}
	for i := range rapid.IntRange(0, 3).Draw(rt, "queues of others") {
		topologytest.AddDeadLettering(o, fmt.Sprint("theirs", i), exchange.Draw(rt, "dead-letter exchange"), key.Draw(rt, "dead-letter key"))
	}
	for range rapid.IntRange(0, 3).Draw(rt, "bindings of others") {
		binding := vhost.Binding{Source: exchange.Draw(rt, "source"), RoutingKey: key.Draw(rt, "key")}
		binding.ToExchange = rapid.Bool().Draw(rt, "to an exchange")
		binding.Destination = queue.Draw(rt, "queue")
		if binding.ToExchange {
			binding.Destination = exchange.Draw(rt, "destination")
		}
		known := slices.ContainsFunc(o.BindingsFrom[binding.Source], func(b vhost.Binding) bool { return topologytest.SameBinding(b, binding) })
		if binding.Source != "" && binding.Destination != "" && !known {
			topologytest.Bind(o, binding)
		}
	}
}

// keysOf returns the routing keys that lead to different routes.
func keysOf(o vhost.Observed) []string {
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

// deadLetter is a dead letter: its source queue and the values that decide its route.
type deadLetter struct{ queue, key, reason string }

// deadLettersOf returns the dead letters that reach some queue.
func deadLettersOf(o vhost.Observed, keys []string) []deadLetter {
	var found []deadLetter
	for _, from := range vhost.DeadLetterRoutesIn(o.Queues) {
		for _, key := range keys {
			if from.RoutingKey != nil {
				key = *from.RoutingKey
			}
			for _, reason := range []string{"rejected", "expired", "delivery_limit", "maxlen"} {
				if len(topologytest.Arrives(o, from.Exchange, topologytest.DeadLetter{Key: key, Reason: reason})) > 0 {
					found = append(found, deadLetter{from.Queue, key, reason})
				}
			}
		}
	}
	return found
}

// TestNoDeadLetterIsLost: a dead letter that reached a queue before still reaches one, unless its source queue is gone. This
// holds for every edit of the spec and all other sources of dead letters. Desired objects stay.
func TestNoDeadLetterIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdited(rt, t)
		e.others(rt)
		for round := range 3 {
			comparison := e.compare()
			if round > 0 && !comparison.RequiresRecreation() {
				topologytest.Declare(t, &e.observed, e.now)
				comparison = e.compare()
			}
			keys, sources := keysOf(e.observed), sourcesOf(e.observed, e.owned)
			before := deadLettersOf(e.observed, keys)
			e.remove(comparison)
			after := deadLettersOf(e.observed, keys)
			for _, one := range before {
				if _, exists := e.observed.Queues[one.queue]; exists && !slices.Contains(after, one) {
					rt.Fatalf("round %d: the dead letter %v is lost", round, one)
				}
			}
			for _, orphan := range comparison.Orphans {
				if e.now.Wants(orphan.ID()) {
					rt.Errorf("%v is in the spec, but counts as an orphan", orphan.Entry)
				}
			}
			topologytest.Equal(rt, "source exchanges", sources, sourcesOf(e.observed, e.owned))
		}
	})
}

// sourcesOf returns the existing source exchanges among the owned objects of a topology.
func sourcesOf(o vhost.Observed, owned []v1alpha1.TopologyEntry) []string {
	var names []string
	for _, entry := range owned {
		if entry.Kind == v1alpha1.KindExchange && entry.Role == v1alpha1.RoleSource && o.Has(topology.IDOf(entry)) {
			names = append(names, entry.Name)
		}
	}
	return names
}

// TestAnEditEndsInWhatItWants: declaring missing objects and removing unblocked ones ends in the topology of the edited spec plus
// the former source exchanges.
func TestAnEditEndsInWhatItWants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdited(rt, t)
		if e.compare().RequiresRecreation() {
			rt.Skip("something must be recreated")
		}
		for range 5 {
			topologytest.Declare(t, &e.observed, e.now)
			e.remove(e.compare())
		}
		comparison := e.compare()
		for _, change := range comparison.Changes {
			topologytest.Equal(rt, "effect of "+change.Message, v1alpha1.EffectNone, change.Effect) // others must declare it
		}
		topologytest.Equal(rt, "orphans", nil, comparison.Orphans)
		want := topologytest.Observe(t, e.now)
		for _, exchange := range e.before.Exchanges {
			if exchange.Role == v1alpha1.RoleSource {
				want.Exchanges[exchange.Name] = e.observed.Exchanges[exchange.Name]
			}
		}
		topologytest.Equal(rt, "vhost", contents(want), contents(e.observed))
	})
}

// TestTeardownLeavesNothing: removing the owned objects of a topology step by step ends in an empty vhost, except for source
// exchanges.
func TestTeardownLeavesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdited(rt, t)
		none := func(v1alpha1.TopologyEntry) string { return "" }
		var step plan.Teardown
		for range 5 {
			e.observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(e.observed.Queues)
			step = plan.TeardownOf(e.owned, e.observed, none, nil)
			topologytest.Equal(rt, "fed by", "", step.FeedingQueue)
			queues := step.WorkQueues
			if len(queues) == 0 {
				queues = step.DeadLetterQueues
			}
			for _, name := range queues {
				topologytest.DropQueue(&e.observed, name)
			}
			if len(queues) > 0 {
				continue
			}
			for _, binding := range step.Bindings {
				topologytest.Unbind(&e.observed, v1alpha1.Change{
					Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments.JSON(),
				})
			}
			for _, name := range step.Exchanges {
				topologytest.DropExchange(&e.observed, name)
			}
		}
		topologytest.Equal(rt, "the last step", plan.Teardown{}, step)
		want := vhost.Observed{Exchanges: map[string]vhost.Exchange{}}
		for _, name := range sourcesOf(topologytest.Observe(t, e.before), e.owned) {
			want.Exchanges[name] = topologytest.Observe(t, e.before).Exchanges[name]
		}
		topologytest.Equal(rt, "vhost", contents(want), contents(e.observed))
	})
}

// contents lists the objects at a broker.
func contents(o vhost.Observed) []string {
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
