package plan

import (
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Verb is the kind of an action.
type Verb string

// The verbs, in the order in which Warren executes a plan.
const (
	// Declare declares an exchange or queue.
	Declare Verb = "Declare"
	// Bind binds a queue to an exchange.
	Bind Verb = "Bind"
	// BindSource binds the main queue to a source exchange for the first time, after everything else exists. A message must find the
	// tiers, the dead-letter exchange and the dead-letter queue that its consumer relies on.
	BindSource Verb = "BindSource"
	// Unbind removes a binding.
	Unbind Verb = "Unbind"
	// Delete deletes an exchange.
	Delete Verb = "Delete"
	// DeleteWhenEmpty deletes a queue once it is proven empty.
	DeleteWhenEmpty Verb = "DeleteWhenEmpty"
	// Leave does nothing now, for the action's reason.
	Leave Verb = "Leave"
)

// Reason is why Decide chose a Verb.
type Reason string

// The reasons.
const (
	// ReasonNew: the object was never in sync in its desired form.
	ReasonNew Reason = "New"
	// ReasonDrifted: the object was in sync, and is missing.
	ReasonDrifted Reason = "Drifted"
	// ReasonOrphaned: the object is no longer desired.
	ReasonOrphaned Reason = "Orphaned"
	// ReasonReportOnly: driftPolicy is Report.
	ReasonReportOnly Reason = "ReportOnly"
	// ReasonNotOurs: Warren does not declare this exchange.
	ReasonNotOurs Reason = "NotOurs"
	// ReasonRecreationRequired: Warren declares nothing new while an object requires recreation, except sources after a broker upgrade.
	ReasonRecreationRequired Reason = "RecreationRequired"
	// ReasonEndRecreated: the bindings of an object that requires recreation stay as they are.
	ReasonEndRecreated Reason = "EndRecreated"
	// ReasonEndMissing: an end of the binding is missing and will not be declared.
	ReasonEndMissing Reason = "EndMissing"
	// ReasonPostponed: Warren declares the object again later; see Plan.Postpone.
	ReasonPostponed Reason = "Postponed"
	// ReasonBlocked: Warren retains the orphan, see Orphan.BlockedBy; or the new binding waits, because Warren retains the orphan that it
	// replaces.
	ReasonBlocked Reason = "Blocked"
)

// Action is one operation at the broker.
type Action struct {
	Verb   Verb
	Reason Reason
	Entry  Entry
}

// Plan has one action for each missing or orphaned object of a comparison, in the order of the entries.
type Plan struct {
	Actions []Action
	// Drift is true if an object is missing that was in sync before, whether or not Warren declares it again.
	Drift bool
	// Failed are the objects whose declaration the broker did not confirm.
	Failed vhost.IDs
}

// Decide chooses an action for each missing or orphaned object.
//
// Under Report, every verb is Leave. While an object requires recreation, Warren declares only objects that were in sync before, and does
// not change the bindings of that object. If only an upgrade of the broker explains the difference, Warren also declares the bindings
// again, and binds new sources. If Warren recreates the object itself, it first declares and binds new objects to which the recreated
// queue may dead-letter. A binding to an end that is missing and not declared is left out. A new source binding waits for everything else,
// so that messages find a complete topology.
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
		action := decision.actionFor(entry)
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

// decision holds the inputs that all choices of one plan share.
type decision struct {
	comparison Comparison
	known      topology.Inventory
	policy     v1alpha1.DriftPolicy
	// frozen are objects that require recreation; absent are objects that are missing and not declared.
	frozen, absent vhost.IDs
}

// actionFor chooses an action for a missing object. The actions for the ends of a binding must have been chosen before.
func (d decision) actionFor(missing Entry) Action {
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
	case d.comparison.RequiresRecreation() && !wasInSync && !d.precedesRecreation(missing):
		return leave(ReasonRecreationRequired)
	case missing.Binding == nil:
		return Action{Declare, reason, missing}
	case d.frozen.HasEitherEnd(missing.ID()):
		return leave(ReasonEndRecreated)
	case d.absent.HasEitherEnd(missing.ID()):
		return leave(ReasonEndMissing)
	case !wasInSync && missing.Role != v1alpha1.RoleSource && d.hasOldRoute(*missing.Binding, Orphan.isShared):
		return leave(ReasonBlocked)
	case missing.Role == v1alpha1.RoleSource && !wasInSync:
		return Action{BindSource, reason, missing}
	}
	return Action{Bind, reason, missing}
}

// precedesRecreation reports whether Warren declares or binds a new object before it recreates a queue. A new exchange or queue must
// not have existed before. A binding of a source waits, unless only a broker upgrade explains the difference and the older topology works.
// Other bindings come first, because the recreated main queue may dead-letter through them.
func (d decision) precedesRecreation(missing Entry) bool {
	switch {
	case d.comparison.Upgraded:
		return missing.Role == v1alpha1.RoleSource && !d.comparison.OlderIncomplete
	case !d.comparison.WarrenRecreates:
		return false
	}
	if missing.Binding != nil {
		return missing.Role != v1alpha1.RoleSource && !d.hasOldRoute(*missing.Binding, func(Orphan) bool { return true })
	}
	entry, known := d.known[missing.ID()]
	return !known || topology.Intended(entry)
}

// hasOldRoute reports whether the messages of a new binding still reach another queue through an orphaned binding for which stays returns
// true. With both bindings, each message would take both routes.
func (d decision) hasOldRoute(binding topology.Binding, stays func(Orphan) bool) bool {
	isFanout := slices.ContainsFunc(d.comparison.Entries, func(entry Entry) bool {
		return entry.Exchange != nil && entry.Name == binding.Source && entry.Exchange.Type == v1alpha1.ExchangeFanout
	})
	return slices.ContainsFunc(d.comparison.Orphans, func(orphan Orphan) bool {
		old := orphan.Entry
		isOther := old.Kind == v1alpha1.KindBinding && old.Source == binding.Source && old.Destination != binding.Destination
		return isOther && stays(orphan) && (isFanout || old.RoutingKey == binding.RoutingKey && old.Arguments == binding.ID().Arguments)
	})
}

// isShared reports whether Warren retains an object because another instance of Warren works on the vhost.
func (o Orphan) isShared() bool { return o.BlockedBy.Reason == v1alpha1.AdvisoryReasonSharedVHost }

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

// Drifted returns the objects that the plan declares or binds again.
func (p Plan) Drifted() []vhost.ID {
	var drifted []vhost.ID
	for _, action := range p.Actions {
		if action.Reason == ReasonDrifted && action.Verb != Leave {
			drifted = append(drifted, action.Entry.ID())
		}
	}
	return drifted
}

// Postpone returns the plan without the declarations of some objects and of their bindings.
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

// Declarations returns the objects to declare and bind first, and the source bindings to bind once all of those exist.
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

// Removals returns the bindings and exchanges that the plan removes immediately.
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

// Writes reports whether the plan declares, binds or removes anything immediately.
func (p Plan) Writes() bool {
	bindings, exchanges := p.Removals()
	return p.Count() > 0 || len(bindings)+len(exchanges) > 0
}

func (p Plan) declares(id vhost.ID) bool {
	for _, action := range p.Actions {
		if action.Verb == Declare && action.Entry.ID() == id {
			return true
		}
	}
	return false
}

// confirms reports whether the plan declared an object and the broker confirmed it.
func (p Plan) confirms(id vhost.ID) bool { return p.declares(id) && !p.Failed[id] }

// Count returns the number of objects that the plan declares and binds.
func (p Plan) Count() int {
	exchanges, queues, bindings := p.counts()
	return exchanges + queues + bindings
}

func (p Plan) counts() (exchanges, queues, bindings int) {
	first, last := p.Declarations()
	return len(first.Exchanges), len(first.Queues), len(first.Bindings) + len(last.Bindings)
}

// Summary describes what the plan declares: 1 exchange, 5 queues and 1 binding.
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
		if part.count > 0 {
			parts = append(parts, text.Count(part.count, part.noun))
		}
	}
	last := len(parts) - 1
	if last < 1 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
