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
	// leaving are bindings that are removed together with the object. Checks ignore them.
	leaving vhost.IDs
}

// A check returns a reason to retain an object, or the zero Block. The first reason in a chain of checks decides.
type check func(removal) Block

var (
	bindingChecks = []check{
		anotherInstanceWorksHere, endMustBeRecreated, replacementIsPending, consumersPublish, deadLettersNeedBinding,
	}
	exchangeChecks = []check{anotherInstanceWorksHere, replacementIsPending, consumersPublish, exchangeIsInUse}
	queueChecks    = []check{anotherInstanceWorksHere, replacementIsPending, consumersPublish, deadLettersComeIn, queueIsBound}
)

func firstBlock(checks []check, r removal) Block {
	for _, check := range checks {
		if block := check(r); block != (Block{}) {
			return block
		}
	}
	return Block{}
}

// anotherInstanceWorksHere: another instance of Warren may need the object, and this instance does not know its ConsumerQueues.
func anotherInstanceWorksHere(r removal) Block {
	if r.input.Hold == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonSharedVHost, r.input.Hold}
}

// endMustBeRecreated: an exchange or queue that requires recreation keeps its bindings until then.
func endMustBeRecreated(r removal) Block {
	for _, end := range []vhost.ID{vhost.QueueID(r.entry.Destination), vhost.ExchangeID(r.entry.Source)} {
		if !r.comparison.Upgraded && r.comparison.recreated()[end] {
			return Block{
				v1alpha1.AdvisoryReasonRecreationPending, fmt.Sprintf("%s must be recreated first. Warren does not change it before", end),
			}
		}
	}
	return Block{}
}

// replacementIsPending: until every desired object exists as desired, Warren removes only bindings of sources.
func replacementIsPending(r removal) Block {
	if r.entry.Kind == v1alpha1.KindBinding && r.entry.Role == v1alpha1.RoleSource || !r.comparison.incomplete() {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonReplacementPending, "the objects that replace it do not exist yet"}
}

// consumersPublish: consumers may still follow the previous contract, and publish to a delay tier or park by it. They never
// publish to a source. A binding can go if another binding matches the same messages: with both, a queue would receive each
// message twice.
func consumersPublish(r removal) Block {
	if r.input.ContractHold == "" || r.entry.Role == v1alpha1.RoleSource {
		return Block{}
	}
	if r.entry.Kind == v1alpha1.KindBinding && r.observed.HasAlternative(topology.BindingOf(r.entry).AtBroker(), r.leaving) {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonContractPending, r.input.ContractHold}
}

// deadLettersNeedBinding: the binding is the only route for the dead letters of some queue.
func deadLettersNeedBinding(r removal) Block {
	queue := r.observed.NeededByDeadLettersOf(topology.BindingOf(r.entry).AtBroker(), r.leaving)
	if queue == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonDeadLetters, fmt.Sprintf("queue %q still dead-letters through it", queue)}
}

// exchangeIsInUse: something is bound to the exchange, or sends messages to it.
func exchangeIsInUse(r removal) Block {
	use := r.observed.UsedBy(r.entry.Name, r.leaving)
	if use == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonInUse, use}
}

// deadLettersComeIn: another queue still dead-letters to this queue.
func deadLettersComeIn(r removal) Block {
	queue := r.observed.DeadLettersInto(r.entry.Name, nil)
	if queue == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonDeadLetters, fmt.Sprintf("queue %q still dead-letters to it", queue)}
}

// queueIsBound: the queue may still receive messages through a binding.
func queueIsBound(r removal) Block {
	bindings := r.observed.BindingsTo[r.entry.Name]
	if len(bindings) == 0 {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonInUse, fmt.Sprintf("it is still bound to exchange %q", bindings[0].Source)}
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
