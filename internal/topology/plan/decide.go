package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Verb is what to do about an object.
type Verb string

// The verbs, in the order in which a plan is carried out.
const (
	// Declare declares an exchange or queue.
	Declare Verb = "Declare"
	// Bind binds a queue.
	Bind Verb = "Bind"
	// BindSource binds the main queue to an exchange that brings messages in for the first time, when all else is there: a
	// message must find the tiers, the dead-letter exchange and the dead-letter queue that its consumer relies on.
	BindSource Verb = "BindSource"
	// Unbind takes a binding away.
	Unbind Verb = "Unbind"
	// Delete deletes an exchange.
	Delete Verb = "Delete"
	// DeleteWhenEmpty deletes a queue once it is provably empty.
	DeleteWhenEmpty Verb = "DeleteWhenEmpty"
	// Leave does nothing for now; the reason says why.
	Leave Verb = "Leave"
)

// Reason says why a verb was chosen.
type Reason string

// The reasons.
const (
	// ReasonNew: the object has never been there as it is desired now.
	ReasonNew Reason = "New"
	// ReasonDrifted: the object was there as desired, and is gone.
	ReasonDrifted Reason = "Drifted"
	// ReasonOrphaned: the object is no longer desired.
	ReasonOrphaned Reason = "Orphaned"
	// ReasonReportOnly: driftPolicy is Report.
	ReasonReportOnly Reason = "ReportOnly"
	// ReasonNotOurs: Warren is not asked to declare the exchange.
	ReasonNotOurs Reason = "NotOurs"
	// ReasonRecreationRequired: while an object needs recreation, nothing new is declared.
	ReasonRecreationRequired Reason = "RecreationRequired"
	// ReasonEndRecreated: the bindings of an object that needs recreation stay as they are.
	ReasonEndRecreated Reason = "EndRecreated"
	// ReasonEndMissing: what is missing and is not declared cannot be bound.
	ReasonEndMissing Reason = "EndMissing"
	// ReasonPostponed: the object is declared again later; see Plan.Postpone.
	ReasonPostponed Reason = "Postponed"
	// ReasonBlocked: an orphan has to be kept; see Orphan.BlockedBy.
	ReasonBlocked Reason = "Blocked"
)

// Action is one thing to do at the broker.
type Action struct {
	Verb   Verb
	Reason Reason
	Entry  Entry
}

// Plan is what to do about a comparison: one action for each object that is missing or orphaned, in the order of the entries.
type Plan struct {
	Actions []Action
	// Drift says that an object is missing that was once in sync, whether or not it is declared again.
	Drift bool
	// Failed are those objects of which the broker did not confirm that they were declared.
	Failed vhost.IDs
}

// Decide chooses what to do about each object that is missing or orphaned.
//
// Under Report nothing is done. While an object needs recreation, only what was in sync before comes back, and the bindings of
// that object stay as they are. If Warren recreates the object itself, it declares new exchanges and queues before, and binds new
// exchanges: no message reaches these yet, and the recreated queue may dead-letter to them. If a broker upgrade is all that made the object
// differ, its bindings come back too. What is missing and not declared cannot be bound. Messages are let in last: a source binding that is
// new waits for all else.
func Decide(comparison Comparison, known topology.Inventory, policy v1alpha1.DriftPolicy) Plan {
	decision := decision{comparison: comparison, known: known, policy: policy, absent: vhost.IDs{}}
	if !comparison.Upgraded {
		decision.frozen = comparison.recreated()
	}
	plan := Plan{}
	for _, entry := range comparison.Entries {
		if entry.State != v1alpha1.StateMissing {
			continue
		}
		action := decision.about(entry)
		if action.Verb == Leave && entry.Binding == nil {
			decision.absent[entry.ID()] = true
		}
		plan.Drift = plan.Drift || known.WasInSync(entry.ID(), entry.Hash)
		plan.Actions = append(plan.Actions, action)
	}
	for _, orphan := range comparison.Orphans {
		plan.Actions = append(plan.Actions, orphan.action(policy))
	}
	return plan
}

// decision is what the choices of one plan have in common.
type decision struct {
	comparison Comparison
	known      topology.Inventory
	policy     v1alpha1.DriftPolicy
	// frozen are objects that need recreation; absent are those that are missing and not declared.
	frozen, absent vhost.IDs
}

// about decides about a missing object; those that it binds were decided about before.
func (d decision) about(missing Entry) Action {
	leave := func(reason Reason) Action { return Action{Leave, reason, missing} }
	wasInSync := d.known.WasInSync(missing.ID(), missing.Hash)
	reason := ReasonNew
	if wasInSync {
		reason = ReasonDrifted
	}
	switch {
	case d.policy == v1alpha1.DriftPolicyReport:
		return leave(ReasonReportOnly)
	case missing.Exchange != nil && !missing.Exchange.Declare:
		return leave(ReasonNotOurs)
	case d.comparison.Recreate() && !wasInSync && !d.precedesRecreation(missing):
		return leave(ReasonRecreationRequired)
	case missing.Binding == nil:
		return Action{Declare, reason, missing}
	case d.frozen.HasEitherEnd(missing.ID()):
		return leave(ReasonEndRecreated)
	case d.absent.HasEitherEnd(missing.ID()):
		return leave(ReasonEndMissing)
	case missing.Role == v1alpha1.RoleSource && !wasInSync:
		return Action{BindSource, reason, missing}
	}
	return Action{Bind, reason, missing}
}

// precedesRecreation reports whether a new object is declared before the recreation that Warren makes itself: an exchange or a queue that
// did not exist before, or a binding of such an exchange. All other bindings wait, because a message would take the old and the new way.
func (d decision) precedesRecreation(missing Entry) bool {
	if !d.comparison.Recreates || d.comparison.Upgraded {
		return false
	}
	id := missing.ID()
	if missing.Binding != nil {
		id = vhost.ExchangeID(missing.Source)
		isMissing := slices.ContainsFunc(d.comparison.Entries, func(entry Entry) bool {
			return entry.ID() == id && entry.State == v1alpha1.StateMissing
		})
		if !isMissing || missing.Role == v1alpha1.RoleSource {
			return false
		}
	}
	_, existed := d.known[id]
	return !existed
}

func (o Orphan) action(policy v1alpha1.DriftPolicy) Action {
	entry := Entry{TopologyEntry: o.Entry}
	switch {
	case o.Blocked():
		return Action{Leave, ReasonBlocked, entry}
	case policy == v1alpha1.DriftPolicyReport:
		return Action{Leave, ReasonReportOnly, entry}
	case o.Entry.Kind == v1alpha1.KindBinding:
		return Action{Unbind, ReasonOrphaned, entry}
	case o.Entry.Kind == v1alpha1.KindExchange:
		return Action{Delete, ReasonOrphaned, entry}
	}
	return Action{DeleteWhenEmpty, ReasonOrphaned, entry}
}

// Drifted are the objects that are declared or bound again.
func (p Plan) Drifted() []vhost.ID {
	var drifted []vhost.ID
	for _, action := range p.Actions {
		if action.Reason == ReasonDrifted && action.Verb != Leave {
			drifted = append(drifted, action.Entry.ID())
		}
	}
	return drifted
}

// Postpone returns the plan without the declarations of some objects, and without the bindings of these.
func (p Plan) Postpone(objects vhost.IDs) Plan {
	actions := make([]Action, len(p.Actions))
	for i, action := range p.Actions {
		declares := action.Verb == Declare || action.Verb == Bind || action.Verb == BindSource
		id := action.Entry.ID()
		if declares && (objects[id] || objects.HasEitherEnd(id)) {
			action.Verb, action.Reason = Leave, ReasonPostponed
		}
		actions[i] = action
	}
	p.Actions = actions
	return p
}

// Declarations are what is declared and bound at first, and the source bindings that are bound when all of that is at the
// broker.
func (p Plan) Declarations() (first, last topology.Topology) {
	for _, action := range p.Actions {
		switch entry := action.Entry; {
		case action.Verb == Declare && entry.Exchange != nil:
			first.Exchanges = append(first.Exchanges, *entry.Exchange)
		case action.Verb == Declare:
			first.Queues = append(first.Queues, *entry.Queue)
		case action.Verb == Bind:
			first.Bindings = append(first.Bindings, *entry.Binding)
		case action.Verb == BindSource:
			last.Bindings = append(last.Bindings, *entry.Binding)
		}
	}
	return first, last
}

// Removals are the bindings and exchanges that are taken away at once.
func (p Plan) Removals() (bindings []topology.Binding, exchanges []string) {
	for _, action := range p.Actions {
		switch action.Verb {
		case Unbind:
			bindings = append(bindings, topology.BindingOf(action.Entry.TopologyEntry))
		case Delete:
			exchanges = append(exchanges, action.Entry.Name)
		}
	}
	return bindings, exchanges
}

// Removes says whether anything is taken away at once.
func (p Plan) Removes() bool {
	bindings, exchanges := p.Removals()
	return len(bindings)+len(exchanges) > 0
}

// declares says whether a plan declares the object of an entry.
func (p Plan) declares(id vhost.ID) bool {
	for _, action := range p.Actions {
		if action.Verb == Declare && action.Entry.ID() == id {
			return true
		}
	}
	return false
}

// confirms says whether an object was declared by a plan, and the broker said so.
func (p Plan) confirms(id vhost.ID) bool { return p.declares(id) && !p.Failed[id] }

// Count is how many objects a plan declares and binds.
func (p Plan) Count() int {
	exchanges, queues, bindings := p.counts()
	return exchanges + queues + bindings
}

func (p Plan) counts() (exchanges, queues, bindings int) {
	first, last := p.Declarations()
	return len(first.Exchanges), len(first.Queues), len(first.Bindings) + len(last.Bindings)
}

// Summary counts what a plan declares: 1 exchange, 5 queues and 1 binding.
func (p Plan) Summary() string {
	exchanges, queues, bindings := p.counts()
	var parts []string
	for _, part := range []struct {
		count int
		noun  string
	}{
		{exchanges, "exchange"},
		{queues, "queue"},
		{bindings, "binding"},
	} {
		switch part.count {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.noun)
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", part.count, part.noun))
		}
	}
	last := len(parts) - 1
	if last < 1 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
