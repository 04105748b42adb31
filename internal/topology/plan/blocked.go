package plan

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// removal is an object to remove, with the facts that the checks need.
type removal struct {
	entry      v1alpha1.TopologyEntry
	comparison *Comparison
	observed   vhost.Observed
	input      Input
	// leaving are bindings that are removed together with the object. Checks ignore these bindings.
	leaving vhost.IDs
	known   topology.Inventory      // of the objects in input.Owned
	search  *vhost.DeadLetterSearch // of observed
}

// A check returns a reason to retain an object, or the zero Blocker. The first reason in a chain of checks decides.
type check func(removal) Blocker

var (
	bindingChecks = []check{
		anotherInstanceWorksHere, endMustBeRecreated, replacementIsPending, consumersPublish, deadLettersNeedBinding,
	}
	exchangeChecks = []check{anotherInstanceWorksHere, replacementIsPending, consumersPublish, exchangeIsInUse}
	queueChecks    = []check{anotherInstanceWorksHere, replacementIsPending, consumersPublish, deadLettersComeIn, queueIsBound}
)

func firstBlocker(checks []check, r removal) Blocker {
	for _, check := range checks {
		if block := check(r); block != (Blocker{}) {
			return block
		}
	}
	return Blocker{}
}

// anotherInstanceWorksHere: another instance of Warren may need the object, and this instance does not know its ConsumerQueues.
func anotherInstanceWorksHere(r removal) Blocker {
	if r.input.OtherInstance == "" {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonSharedVHost, r.input.OtherInstance}
}

// endMustBeRecreated: an exchange or queue that requires recreation keeps its bindings until then.
func endMustBeRecreated(r removal) Blocker {
	for _, end := range []vhost.ID{vhost.QueueID(r.entry.Destination), vhost.ExchangeID(r.entry.Source)} {
		if !r.comparison.Upgraded && r.comparison.recreated()[end] {
			return Blocker{
				v1alpha1.AdvisoryReasonRecreationPending,
				fmt.Sprintf("%s must be recreated first. Warren does not change it until then", end),
			}
		}
	}
	return Blocker{}
}

// replacementIsPending: until every desired object exists as desired, Warren removes nothing except bindings of sources.
func replacementIsPending(r removal) Blocker {
	pending := r.comparison.incomplete()
	if isSourceBinding(r.entry) {
		pending = r.comparison.replacesSource(r.entry, r.known)
	}
	if !pending {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonReplacementPending, "the new objects of the spec do not exist yet"}
}

// replacesSource reports whether a new binding replaces the binding of a source, and does not exist yet: a binding between the same
// exchange and queue, or one from another exchange if the queue would have no source. The queue would miss messages meanwhile. A binding
// that was in sync before replaces nothing: another client has deleted it.
func (c *Comparison) replacesSource(old v1alpha1.TopologyEntry, known topology.Inventory) bool {
	hasSource, isReplaced, isMoved := false, false, false
	for _, entry := range c.Entries {
		switch {
		case !isSourceBinding(entry.TopologyEntry) || entry.Destination != old.Destination:
		case entry.State == v1alpha1.StateInSync:
			hasSource = true
		case known.WasInSync(entry.ID(), entry.Hash):
		case entry.State == v1alpha1.StateMissing && entry.Source == old.Source:
			isReplaced = true
		case entry.State == v1alpha1.StateMissing && !slices.Contains(c.MissingExchanges, entry.Source):
			isMoved = true
		}
	}
	return isReplaced || isMoved && !hasSource
}

func isSourceBinding(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind == v1alpha1.KindBinding && entry.Role == v1alpha1.RoleSource
}

// consumersPublish: consumers may still follow the previous contract, and publish retries or parked messages through the object. They never
// publish to a source. Warren removes a binding if another one matches the same messages, because with both bindings a queue would receive
// each message twice.
func consumersPublish(r removal) Blocker {
	if r.input.ContractPending == "" || r.entry.Role == v1alpha1.RoleSource {
		return Blocker{}
	}
	isBinding := r.entry.Kind == v1alpha1.KindBinding
	if isBinding && r.observed.HasAlternative(topology.BindingOf(r.entry).AtBroker(), r.leaving, r.isReplacedBy) {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonContractPending, r.input.ContractPending}
}

// isReplacedBy reports whether a binding is another route for the messages of this ConsumerQueue. A binding to a queue of another owner is
// not, even if it matches the same messages.
func (r removal) isReplacedBy(other vhost.Binding) bool {
	return other.Destination == r.entry.Destination || slices.ContainsFunc(r.comparison.Entries, func(entry Entry) bool {
		return entry.Hash != "" && entry.ID() == other.ID()
	})
}

// deadLettersNeedBinding: the binding is the only route for the dead letters of a queue. For dead letters of another owner, a route to any
// queue is enough.
func deadLettersNeedBinding(r removal) Blocker {
	replaces := func(from string, other vhost.Binding) bool {
		isOwn := slices.ContainsFunc(r.input.Owned, func(entry v1alpha1.TopologyEntry) bool {
			return entry.Kind == v1alpha1.KindQueue && entry.Name == from
		})
		return !isOwn || r.isReplacedBy(other)
	}
	queue := r.search.NeededBy(topology.BindingOf(r.entry).AtBroker(), r.leaving, replaces)
	if queue == "" {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonDeadLetters, fmt.Sprintf("queue %q still dead-letters through it", queue)}
}

// exchangeIsInUse: the exchange has bindings, or another exchange or a queue passes messages to it.
func exchangeIsInUse(r removal) Blocker {
	use := r.observed.UsedBy(r.entry.Name, r.leaving)
	if use == "" {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonInUse, use}
}

// deadLettersComeIn: another queue still dead-letters to this queue.
func deadLettersComeIn(r removal) Blocker {
	queue := r.search.Into(r.entry.Name, nil)
	if queue == "" {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonDeadLetters, fmt.Sprintf("queue %q still dead-letters to it", queue)}
}

// queueIsBound: the queue may still receive messages through a binding.
func queueIsBound(r removal) Blocker {
	bindings := r.observed.BindingsTo[r.entry.Name]
	if len(bindings) == 0 {
		return Blocker{}
	}
	return Blocker{v1alpha1.AdvisoryReasonInUse, fmt.Sprintf("it is still bound to exchange %q", bindings[0].Source)}
}

// incomplete reports whether a desired object is missing or differs. It ignores missing sources, which Warren cannot always
// declare, and differences that only a broker upgrade explains.
func (c *Comparison) incomplete() bool {
	return slices.ContainsFunc(c.Entries, func(entry Entry) bool {
		switch entry.State {
		case v1alpha1.StateMissing:
			return entry.Role != v1alpha1.RoleSource
		case v1alpha1.StateRecreationRequired:
			return !c.Upgraded
		}
		return false
	})
}
