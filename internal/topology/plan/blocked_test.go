package plan

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// Each check, with a case that blocks and the nearest case that does not.
func TestChecks(t *testing.T) {
	t.Parallel()
	queue := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "dlq", Role: v1alpha1.RoleDeadLetter}
	exchange := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: "dlx", Role: v1alpha1.RoleDeadLetter}
	binding := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "dlx", Destination: "dlq", Role: v1alpha1.RoleDeadLetter}
	source := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders", Role: v1alpha1.RoleSource}
	state := func(kind v1alpha1.ObjectKind, name string, role v1alpha1.Role, state v1alpha1.ObjectState) *Comparison {
		return &Comparison{Entries: []Entry{{TopologyEntry: v1alpha1.TopologyEntry{Kind: kind, Name: name, Role: role, State: state}}}}
	}
	upgraded := func(comparison *Comparison) *Comparison {
		comparison.Upgraded = true
		return comparison
	}
	recreate := func(kind v1alpha1.ObjectKind, name string) *Comparison {
		return state(kind, name, v1alpha1.RoleDeadLetter, v1alpha1.StateRecreationRequired)
	}
	// the broker has a dead-letter exchange that is bound to a dead-letter queue, and a queue with an argument.
	broker := func(key string, value any) vhost.Observed {
		observed := topologytest.Observe(t, topology.Topology{
			Exchanges: []topology.Exchange{{Name: "dlx", Type: v1alpha1.ExchangeFanout, Declare: true}},
			Queues:    []topology.Queue{{Name: "dlq"}, {Name: "theirs", Arguments: vhost.Arguments{key: value}}},
			Bindings:  []topology.Binding{{Source: "dlx", Destination: "dlq"}},
		})
		observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(observed.Queues)
		return observed
	}
	unbound := func(observed vhost.Observed) vhost.Observed {
		topologytest.UnbindFrom(&observed, "dlx", "dlq")
		return observed
	}
	quiet, leads := broker("x-max-length", 5), broker(vhost.ArgDeadLetterExchange, "dlx")
	byName := unbound(broker(vhost.ArgDeadLetterExchange, ""))
	twice := broker("x-max-length", 5)
	twice.BindingsFrom["dlx"] = append(twice.BindingsFrom["dlx"], vhost.Binding{Source: "dlx", Destination: "theirs"})
	toTheirs := state(v1alpha1.KindBinding, "", v1alpha1.RoleDeadLetter, v1alpha1.StateInSync)
	toTheirs.Entries[0].Source, toTheirs.Entries[0].Destination, toTheirs.Entries[0].Hash = "dlx", "theirs", "hash"
	theirs := byName.Queues["theirs"]
	theirs.Arguments[vhost.ArgDeadLetterRoutingKey] = "dlq"
	byName.DeadLetterRoutes = vhost.DeadLetterRoutesIn(byName.Queues)
	leaving := vhost.IDs{topology.IDOf(binding): true}
	for name, test := range map[string]struct {
		check   check
		removal removal
		want    Blocker
	}{
		"anotherInstanceWorksHere: there is one": {
			anotherInstanceWorksHere,
			removal{entry: queue, input: Input{OtherInstance: "another instance works here"}},
			Blocker{v1alpha1.AdvisoryReasonSharedVHost, "another instance works here"},
		},
		"anotherInstanceWorksHere: there is none": {anotherInstanceWorksHere, removal{entry: queue}, Blocker{}},
		"endMustBeRecreated: the queue of the binding": {
			endMustBeRecreated,
			removal{entry: binding, comparison: recreate(v1alpha1.KindQueue, "dlq")},
			Blocker{v1alpha1.AdvisoryReasonRecreationPending, `queue "dlq" must be recreated first. Warren does not change it until then`},
		},
		"endMustBeRecreated: another queue": {
			endMustBeRecreated, removal{entry: binding, comparison: recreate(v1alpha1.KindQueue, "orders")}, Blocker{},
		},
		"endMustBeRecreated: only since the broker was upgraded": {
			endMustBeRecreated, removal{entry: binding, comparison: upgraded(recreate(v1alpha1.KindQueue, "dlq"))}, Blocker{},
		},
		"endMustBeRecreated: the exchange of the binding": {
			endMustBeRecreated,
			removal{entry: binding, comparison: recreate(v1alpha1.KindExchange, "dlx")},
			Blocker{v1alpha1.AdvisoryReasonRecreationPending, `exchange "dlx" must be recreated first. Warren does not change it until then`},
		},
		"endMustBeRecreated: another exchange": {
			endMustBeRecreated, removal{entry: binding, comparison: recreate(v1alpha1.KindExchange, "other")}, Blocker{},
		},
		"consumersPublish: to a delay tier": {
			consumersPublish,
			removal{entry: queue, input: Input{ContractPending: "consumers do not know"}},
			Blocker{v1alpha1.AdvisoryReasonContractPending, "consumers do not know"},
		},
		"consumersPublish: by a binding": {
			consumersPublish,
			removal{entry: binding, observed: broker("x-max-length", 5), input: Input{ContractPending: "consumers do not know"}},
			Blocker{v1alpha1.AdvisoryReasonContractPending, "consumers do not know"},
		},
		"consumersPublish: by a binding, and another binding of the spec matches the same messages": {
			consumersPublish,
			removal{entry: binding, observed: twice, comparison: toTheirs, input: Input{ContractPending: "consumers do not know"}},
			Blocker{},
		},
		"consumersPublish: by a binding, and a foreign binding matches the same messages": {
			consumersPublish,
			removal{entry: binding, observed: twice, comparison: &Comparison{}, input: Input{ContractPending: "consumers do not know"}},
			Blocker{v1alpha1.AdvisoryReasonContractPending, "consumers do not know"},
		},
		"consumersPublish: to no source": {
			consumersPublish,
			removal{entry: source, input: Input{ContractPending: "consumers do not know"}},
			Blocker{},
		},
		"consumersPublish: by the new contract": {consumersPublish, removal{entry: queue}, Blocker{}},
		"replacementIsPending: something desired is missing": {
			replacementIsPending,
			removal{entry: queue, comparison: state(v1alpha1.KindQueue, "new", v1alpha1.RoleDeadLetter, v1alpha1.StateMissing)},
			Blocker{v1alpha1.AdvisoryReasonReplacementPending, "the new objects of the spec do not exist yet"},
		},
		"replacementIsPending: something is not as desired": {
			replacementIsPending,
			removal{entry: exchange, comparison: recreate(v1alpha1.KindQueue, "orders")},
			Blocker{v1alpha1.AdvisoryReasonReplacementPending, "the new objects of the spec do not exist yet"},
		},
		"replacementIsPending: a source exchange that Warren does not declare is missing": {
			replacementIsPending, removal{entry: queue, comparison: state(v1alpha1.KindExchange, "events", v1alpha1.RoleSource, v1alpha1.StateMissing)}, Blocker{},
		},
		"replacementIsPending: the binding of a source": {
			replacementIsPending, removal{entry: source, comparison: recreate(v1alpha1.KindQueue, "orders")}, Blocker{},
		},
		"replacementIsPending: all is there": {
			replacementIsPending, removal{entry: queue, comparison: state(v1alpha1.KindQueue, "new", v1alpha1.RoleDeadLetter, v1alpha1.StateInSync)}, Blocker{},
		},
		"deadLettersNeedBinding: it is the only way": {
			deadLettersNeedBinding,
			removal{entry: binding, observed: leads, leaving: leaving},
			Blocker{v1alpha1.AdvisoryReasonDeadLetters, `queue "theirs" still dead-letters through it`},
		},
		"deadLettersNeedBinding: another binding stays": {deadLettersNeedBinding, removal{entry: binding, observed: leads}, Blocker{}},
		"deadLettersNeedBinding: no queue dead-letters": {deadLettersNeedBinding, removal{entry: binding, observed: quiet, leaving: leaving}, Blocker{}},
		"exchangeIsInUse: a queue dead-letters to it": {
			exchangeIsInUse,
			removal{entry: exchange, observed: unbound(broker(vhost.ArgDeadLetterExchange, "dlx"))},
			Blocker{v1alpha1.AdvisoryReasonInUse, `queue "theirs" dead-letters to it`},
		},
		"exchangeIsInUse: a queue is bound to it": {
			exchangeIsInUse, removal{entry: exchange, observed: quiet}, Blocker{v1alpha1.AdvisoryReasonInUse, `"dlq" is bound to it`},
		},
		"exchangeIsInUse: the queue that is bound to it is removed, too": {exchangeIsInUse, removal{entry: exchange, observed: quiet, leaving: leaving}, Blocker{}},
		"deadLettersComeIn: by an exchange": {
			deadLettersComeIn,
			removal{entry: queue, observed: leads},
			Blocker{v1alpha1.AdvisoryReasonDeadLetters, `queue "theirs" still dead-letters to it`},
		},
		"deadLettersComeIn: by the name of the queue": {
			deadLettersComeIn,
			removal{entry: queue, observed: byName},
			Blocker{v1alpha1.AdvisoryReasonDeadLetters, `queue "theirs" still dead-letters to it`},
		},
		"deadLettersComeIn: to another queue": {
			deadLettersComeIn, removal{entry: queue, observed: unbound(broker(vhost.ArgDeadLetterExchange, "dlx"))}, Blocker{},
		},
		"queueIsBound: to an exchange": {
			queueIsBound, removal{entry: queue, observed: quiet}, Blocker{v1alpha1.AdvisoryReasonInUse, `it is still bound to exchange "dlx"`},
		},
		"queueIsBound: to none": {queueIsBound, removal{entry: queue, observed: byName}, Blocker{}},
	} {
		test.removal.search = test.removal.observed.SearchDeadLetters()
		topologytest.Equal(t, name, test.want, test.check(test.removal))
	}
}

// The first check that finds a reason decides.
func TestFirstBlock(t *testing.T) {
	t.Parallel()
	block := func(message string) check {
		return func(removal) Blocker { return Blocker{v1alpha1.AdvisoryReasonInUse, message} }
	}
	passes := func(removal) Blocker { return Blocker{} }
	topologytest.Equal(t, "block", "first", firstBlocker([]check{passes, block("first"), block("second")}, removal{}).Message)
	topologytest.Equal(t, "no block", Blocker{}, firstBlocker([]check{passes}, removal{}))
}
