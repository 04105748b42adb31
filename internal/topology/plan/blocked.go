package plan

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// removal is an object that is to be removed, with everything that may speak against that.
type removal struct {
	entry      v1alpha1.TopologyEntry
	comparison *Comparison
	observed   vhost.Observed
	input      Input
	// leaving are the bindings that go, too: to a check they are not there any more.
	leaving vhost.IDs
}

// A check finds one reason to keep an object; the zero Block is none. The first check of a chain that finds a reason decides.
type check func(removal) Block

var (
	bindingChecks = []check{
		anotherOperatorWorksHere, queueMustBeRecreated, exchangeMustBeRecreated, replacementIsPending, consumersPublish,
		deadLettersNeedBinding,
	}
	exchangeChecks = []check{anotherOperatorWorksHere, replacementIsPending, consumersPublish, exchangeIsInUse}
	queueChecks    = []check{anotherOperatorWorksHere, replacementIsPending, consumersPublish, deadLettersComeIn, queueIsBound}
)

func firstBlock(checks []check, r removal) Block {
	for _, check := range checks {
		if block := check(r); block != (Block{}) {
			return block
		}
	}
	return Block{}
}

// anotherOperatorWorksHere: another operator may need the object, and its ConsumerQueues are not known here.
func anotherOperatorWorksHere(r removal) Block {
	if r.input.Hold == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonSharedVHost, r.input.Hold}
}

// queueMustBeRecreated: a queue that waits to be recreated keeps its bindings until then.
func queueMustBeRecreated(r removal) Block {
	if r.comparison.Upgraded || !r.comparison.recreated()[vhost.QueueID(r.entry.Destination)] {
		return Block{}
	}
	return Block{
		v1alpha1.AdvisoryReasonRecreationPending,
		fmt.Sprintf("queue %q must be recreated first, and is left as it is until then", r.entry.Destination),
	}
}

// exchangeMustBeRecreated: so does an exchange.
func exchangeMustBeRecreated(r removal) Block {
	if r.comparison.Upgraded || !r.comparison.recreated()[vhost.ExchangeID(r.entry.Source)] {
		return Block{}
	}
	return Block{
		v1alpha1.AdvisoryReasonRecreationPending,
		fmt.Sprintf("exchange %q must be recreated first, and is left as it is until then", r.entry.Source),
	}
}

// replacementIsPending: what is new comes first. Until everything that is desired is there as desired, only bindings of
// sources go.
func replacementIsPending(r removal) Block {
	if r.entry.Kind == v1alpha1.KindBinding && r.entry.Role == v1alpha1.RoleSource || !r.comparison.incomplete() {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonReplacementPending, "what is wanted instead is not there yet"}
}

// consumersPublish: consumers may keep the contract of before, and publish to a delay tier or park by it. They publish to no source. A
// binding goes where another one takes the same messages: with both, each message would be there twice.
func consumersPublish(r removal) Block {
	if r.input.ContractHold == "" || r.entry.Role == v1alpha1.RoleSource {
		return Block{}
	}
	if r.entry.Kind == v1alpha1.KindBinding && r.observed.HasAlternative(topology.BindingOf(r.entry).AtBroker(), r.leaving) {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonContractPending, r.input.ContractHold}
}

// deadLettersNeedBinding: the binding is the only way that the dead letters of some queue have.
func deadLettersNeedBinding(r removal) Block {
	queue := r.observed.NeededByDeadLettersOf(topology.BindingOf(r.entry).AtBroker(), r.leaving)
	if queue == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonDeadLetters, fmt.Sprintf("queue %q still dead-letters by it", queue)}
}

// exchangeIsInUse: something is bound to the exchange, or sends messages to it.
func exchangeIsInUse(r removal) Block {
	use := r.observed.UsedBy(r.entry.Name, r.leaving)
	if use == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonInUse, use}
}

// deadLettersComeIn: some queue still dead-letters to this queue.
func deadLettersComeIn(r removal) Block {
	queue := r.observed.DeadLettersInto(r.entry.Name, nil)
	if queue == "" {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonDeadLetters, fmt.Sprintf("queue %q still dead-letters to it", queue)}
}

// queueIsBound: messages may still come in by a binding.
func queueIsBound(r removal) Block {
	bindings := r.observed.BindingsTo[r.entry.Name]
	if len(bindings) == 0 {
		return Block{}
	}
	return Block{v1alpha1.AdvisoryReasonInUse, fmt.Sprintf("it is still bound to exchange %q", bindings[0].Source)}
}

// incomplete says whether something that is desired is not there, or not as desired; but for what Warren cannot bring about,
// and for what only a broker upgrade explains.
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
