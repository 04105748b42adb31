package ownership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// at returns a ConsumerQueue in a namespace that holds what it specifies, or does not hold it yet.
func at(t *testing.T, namespace, name, spec string, has bool) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := controllertest.Named(t, namespace, name, spec)
	if has {
		cq = controllertest.Synced(t, name, spec, "")
		cq.Namespace = namespace
	}
	cq.UID = types.UID("uid of " + namespace + "/" + name)
	cq.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	return cq
}

func older(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	cq.CreationTimestamp = metav1.NewTime(time.Unix(500, 0))
	return cq
}

// adopting marks the objects of a ConsumerQueue as found instead of declared.
func adopting(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	for i := range cq.Status.Topology {
		if cq.Status.Topology[i].Origin != "" {
			cq.Status.Topology[i].Origin = v1alpha1.OriginAdopted
		}
	}
	return cq
}

// intendingAll marks the objects of a ConsumerQueue as about to be declared.
func intendingAll(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	for i := range cq.Status.Topology {
		cq.Status.Topology[i].LastSyncedHash = ""
	}
	return cq
}

func indexed(all ...*v1alpha1.ConsumerQueue) *Index {
	index := NewIndex()
	for _, cq := range all {
		index.Update(cq)
	}
	return index
}

func consentMessage(object, field string) string {
	return fmt.Sprintf(`%s belongs to a ConsumerQueue in another namespace: ask its owner to add namespace "bank" to %s, or choose another name`,
		object, field)
}

// A newcomer in namespace bank specifies an object that a ConsumerQueue in namespace shop has.
func TestConsent(t *testing.T) {
	t.Parallel()
	const (
		queue    = `{queue: {name: %s}, deadLetter: {queue: {name: grave%s}}}`
		exchange = `{queue: {name: %s}, deadLetter: {exchange: {name: dead, type: direct%s}}}`
		again    = `{queue: {name: %s}, retry: {exchange: {name: again%s}, delayTiers: [{delay: 1m}]}}`
	)
	grave, dead := consentMessage(`queue "grave"`, "spec.deadLetter.queue.sharedWith"), consentMessage(`exchange "dead"`, "spec.deadLetter.exchange.sharedWith")
	held := func(spec, consent string) *v1alpha1.ConsumerQueue {
		return at(t, "shop", "orders", fmt.Sprintf(spec, "orders", consent), true)
	}
	wanted := func(spec, consent string) *v1alpha1.ConsumerQueue {
		return at(t, "bank", "pay", fmt.Sprintf(spec, "pay", consent), false)
	}
	for name, test := range map[string]struct {
		own    *v1alpha1.ConsumerQueue
		others []*v1alpha1.ConsumerQueue
		want   string
	}{
		"a dead-letter queue, without consent":         {wanted(queue, ""), []*v1alpha1.ConsumerQueue{held(queue, "")}, grave},
		"a dead-letter queue, with consent":            {wanted(queue, ""), []*v1alpha1.ConsumerQueue{held(queue, ", sharedWith: [bank]")}, ""},
		"a dead-letter queue, with consent to others":  {wanted(queue, ""), []*v1alpha1.ConsumerQueue{held(queue, ", sharedWith: [banks, ban]")}, grave},
		"a dead-letter queue, with the own consent":    {wanted(queue, ", sharedWith: [shop, bank]"), []*v1alpha1.ConsumerQueue{held(queue, "")}, grave},
		"a dead-letter exchange, without consent":      {wanted(exchange, ""), []*v1alpha1.ConsumerQueue{held(exchange, "")}, dead},
		"a dead-letter exchange, with consent":         {wanted(exchange, ""), []*v1alpha1.ConsumerQueue{held(exchange, ", sharedWith: [bank]")}, ""},
		"a retry exchange, without consent":            {wanted(again, ""), []*v1alpha1.ConsumerQueue{held(again, "")}, consentMessage(`exchange "again"`, "spec.retry.exchange.sharedWith")},
		"a retry exchange, with consent":               {wanted(again, ""), []*v1alpha1.ConsumerQueue{held(again, ", sharedWith: [bank]")}, ""},
		"an older newcomer":                            {older(wanted(queue, "")), []*v1alpha1.ConsumerQueue{held(queue, "")}, grave},
		"the holder found the queue":                   {older(wanted(queue, "")), []*v1alpha1.ConsumerQueue{adopting(held(queue, ""))}, grave},
		"forged intents":                               {older(intendingAll(at(t, "bank", "pay", fmt.Sprintf(queue, "pay", ""), true))), []*v1alpha1.ConsumerQueue{held(queue, "")}, grave},
		"one that has the queue already":               {at(t, "bank", "pay", fmt.Sprintf(queue, "pay", ""), true), []*v1alpha1.ConsumerQueue{held(queue, "")}, ""},
		"two newcomers, the other is first":            {wanted(queue, ""), []*v1alpha1.ConsumerQueue{older(at(t, "shop", "orders", fmt.Sprintf(queue, "orders", ""), false))}, grave},
		"two newcomers, this one is first":             {older(wanted(queue, "")), []*v1alpha1.ConsumerQueue{at(t, "shop", "orders", fmt.Sprintf(queue, "orders", ""), false)}, ""},
		"another one of the holder's namespace agrees": {wanted(queue, ""), []*v1alpha1.ConsumerQueue{held(queue, ""), at(t, "shop", "bills", fmt.Sprintf(queue, "bills", ", sharedWith: [bank]"), true)}, ""},
		"one that shares the queue cannot consent": {wanted(queue, ""), []*v1alpha1.ConsumerQueue{
			held(queue, ", sharedWith: [post]"), adopting(at(t, "post", "mail", fmt.Sprintf(queue, "mail", ", sharedWith: [bank]"), true)),
		}, grave},
		"the own namespace holds the queue": {wanted(queue, ""), []*v1alpha1.ConsumerQueue{
			at(t, "bank", "first", fmt.Sprintf(queue, "first", ", sharedWith: [shop]"), true), adopting(held(queue, "")),
		}, ""},
		"the own namespace shares the queue, without consent by now": {wanted(queue, ""), []*v1alpha1.ConsumerQueue{
			held(queue, ""), adopting(at(t, "bank", "first", fmt.Sprintf(queue, "first", ""), true)),
		}, grave},
		"the same namespace":                {at(t, "bank", "pay", fmt.Sprintf(queue, "pay", ""), false), []*v1alpha1.ConsumerQueue{at(t, "bank", "first", fmt.Sprintf(queue, "first", ""), true)}, ""},
		"the queue that the other one left": {wanted(queue, ""), []*v1alpha1.ConsumerQueue{left(t, held(queue, ""))}, grave},
		"a source exchange": {
			at(t, "bank", "pay", `{queue: {name: pay}, bindings: [{exchange: {name: shop, type: topic}}]}`, false),
			[]*v1alpha1.ConsumerQueue{at(t, "shop", "orders", `{bindings: [{exchange: {name: shop, type: topic}}]}`, true)},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := append(slices.Clip(test.others), test.own)
			view := indexed(all...).View(test.own, here, topologytest.V43, leadsHere)
			var objects []client.Object
			for _, cq := range all {
				objects = append(objects, cq.DeepCopy())
			}
			conflict, err := view.FindConflict(t.Context(), CandidateOf(test.own, topologytest.V43), controllertest.Client(t, nil, objects...))
			topologytest.Equal(t, "error", nil, err)
			message := ""
			if conflict != nil {
				message = conflict.Message
			}
			topologytest.Equal(t, "message", test.want, message)
		})
	}
}

// left changes the dead-letter queue of a ConsumerQueue.
func left(t *testing.T, cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq.Spec = controllertest.Named(t, "shop", "orders", `{}`).Spec
	return cq
}

// The cache may not show yet that the other ConsumerQueue has the queue.
func TestConsentOfAHolderThatTheCacheDoesNotShow(t *testing.T) {
	t.Parallel()
	own := older(at(t, "bank", "pay", `{queue: {name: pay}, deadLetter: {queue: {name: grave}}}`, false))
	cached := at(t, "shop", "orders", withGrave, false)
	view := indexed(own, cached).View(own, here, topologytest.V43, leadsHere)
	live := controllertest.Client(t, nil, at(t, "shop", "orders", withGrave, true))
	conflict, err := view.FindConflict(t.Context(), CandidateOf(own, topologytest.V43), live)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "conflict", &Conflict{
		Message: consentMessage(`queue "grave"`, "spec.deadLetter.queue.sharedWith"),
	}, conflict)
}

// A withdrawn consent is reported on both sides.
func TestUnconsented(t *testing.T) {
	t.Parallel()
	const queue = `{queue: {name: %s}, deadLetter: {queue: {name: grave%s}}}`
	user := func() *v1alpha1.ConsumerQueue {
		return adopting(at(t, "bank", "pay", fmt.Sprintf(queue, "pay", ""), true))
	}
	holding := func(consent string) *v1alpha1.ConsumerQueue {
		return at(t, "shop", "orders", fmt.Sprintf(queue, "orders", consent), true)
	}
	found := func(holds bool) []Unconsented {
		return []Unconsented{{ID: vhost.QueueID("grave"), Field: "spec.deadLetter.queue.sharedWith", Holds: holds}}
	}
	for name, test := range map[string]struct {
		holder, user     *v1alpha1.ConsumerQueue
		byHolder, byUser []Unconsented
	}{
		"with consent":                 {holder: holding(", sharedWith: [bank]"), user: user()},
		"without consent":              {holding(""), user(), found(true), found(false)},
		"the user is older":            {holding(""), older(user()), found(true), found(false)},
		"the user is a newcomer":       {holder: holding(""), user: at(t, "bank", "pay", fmt.Sprintf(queue, "pay", ""), false)},
		"the user is in the namespace": {holder: holding(""), user: adopting(at(t, "shop", "pay", fmt.Sprintf(queue, "pay", ""), true))},
		"the user is being deleted":    {holder: holding(""), user: controllertest.BeingDeleted(user()), byUser: found(false)},
		"the user left the queue":      {holder: holding(""), user: left(t, user())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index := indexed(test.holder, test.user)
			unconsented := func(cq *v1alpha1.ConsumerQueue) []Unconsented {
				return index.View(cq, here, topologytest.V43, leadsHere).Unconsented(CandidateOf(cq, topologytest.V43))
			}
			topologytest.Equal(t, "by the holder", test.byHolder, unconsented(test.holder))
			topologytest.Equal(t, "by the user", test.byUser, unconsented(test.user))
		})
	}
}

// A ConsumerQueue of another namespace cannot prevent a deletion by naming the object.
func TestHeldByAnotherNamespace(t *testing.T) {
	t.Parallel()
	const consenting = `{deadLetter: {queue: {name: grave, sharedWith: [bank]}}}`
	for name, test := range map[string]struct {
		own   string
		other *v1alpha1.ConsumerQueue
		held  bool
	}{
		"it wants the queue, without consent":         {withGrave, at(t, "bank", "pay", withGrave, false), false},
		"it is to declare the queue, without consent": {withGrave, intendingAll(at(t, "bank", "pay", withGrave, true)), false},
		"it has the queue, the consent was withdrawn": {withGrave, at(t, "bank", "pay", withGrave, true), true},
		"it wants the queue, with consent":            {consenting, at(t, "bank", "pay", withGrave, false), true},
		"it is to declare the queue, with consent":    {consenting, intendingAll(at(t, "bank", "pay", withGrave, true)), true},
	} {
		own := at(t, "shop", "orders", test.own, true)
		view := indexed(own, test.other).View(own, here, topologytest.V43, leadsHere)
		topologytest.Equal(t, name, test.held, view.SharedWith(entryOf(t, own, "grave")) != "")
	}
}

// A connection that was not matched may lead to the same vhost. A ConsumerQueue in a
// namespace with consent counts, and one without consent does not.
func TestWantedByConsentFromAnUnknownPlace(t *testing.T) {
	t.Parallel()
	const consenting = `{deadLetter: {queue: {name: grave, sharedWith: [bank]}}}`
	nowhere := func(*v1alpha1.ConsumerQueue) Location { return Location{} }
	for name, test := range map[string]struct {
		own    string
		others []*v1alpha1.ConsumerQueue
		wanted bool
	}{
		"with consent":                  {consenting, []*v1alpha1.ConsumerQueue{at(t, "bank", "pay", withGrave, true)}, true},
		"with consent, not declared":    {consenting, []*v1alpha1.ConsumerQueue{at(t, "bank", "pay", withGrave, false)}, true},
		"another queue":                 {consenting, []*v1alpha1.ConsumerQueue{at(t, "bank", "pay", `{}`, true)}, false},
		"without consent":               {withGrave, []*v1alpha1.ConsumerQueue{at(t, "bank", "pay", withGrave, true)}, false},
		"with consent to others":        {consenting, []*v1alpha1.ConsumerQueue{at(t, "banks", "pay", withGrave, true)}, false},
		"a stranger consents to it":     {withGrave, []*v1alpha1.ConsumerQueue{at(t, "bank", "pay", `{deadLetter: {queue: {name: grave, sharedWith: [shop]}}}`, true)}, false},
		"only the own namespace has it": {consenting, []*v1alpha1.ConsumerQueue{at(t, "shop", "pay", withGrave, true)}, false},
	} {
		own := at(t, "shop", "orders", test.own, true)
		view := indexed(append(test.others, own)...).View(own, here, topologytest.V43, nowhere)
		topologytest.Equal(t, name, test.wanted, view.WantedByConsent(vhost.QueueID("grave")))
	}
}

// Bindings from a dead-letter exchange are unwanted unless the namespace, or one that shares the exchange with consent, wants them.
func TestUnwantedFrom(t *testing.T) {
	t.Parallel()
	const exchange = `{queue: {name: %s}, retry: {policy: None}, deadLetter: {exchange: {name: dead, type: direct%s}}}`
	source := `{queue: {name: pay}, bindings: [{exchange: {name: dead}, routingKeys: [pay.dlq]}]}`
	peer := fmt.Sprintf(exchange, "pay", "")
	for name, test := range map[string]struct {
		consent     string
		other       *v1alpha1.ConsumerQueue
		destination string
		unwanted    bool
	}{
		"a peer of the namespace":                 {"", at(t, "shop", "pay", peer, true), "pay.dlq", false},
		"a source of the namespace":               {"", at(t, "shop", "pay", source, true), "pay", false},
		"a peer of another one, with consent":     {", sharedWith: [bank]", at(t, "bank", "pay", peer, true), "pay.dlq", false},
		"a peer of another one, no consent":       {"", at(t, "bank", "pay", peer, true), "pay.dlq", true},
		"a source of another one, with consent":   {", sharedWith: [bank]", at(t, "bank", "pay", source, true), "pay", true},
		"a source of another one, no consent":     {"", at(t, "bank", "pay", source, true), "pay", true},
		"a newcomer of another one, with consent": {", sharedWith: [bank]", at(t, "bank", "pay", peer, false), "pay.dlq", false},
		"no ConsumerQueue names it":               {"", at(t, "shop", "pay", peer, true), "other", true},
	} {
		own := at(t, "shop", "orders", fmt.Sprintf(exchange, "orders", test.consent), true)
		view := indexed(own, test.other).View(own, here, topologytest.V43, leadsHere)
		binding := vhost.Binding{Source: "dead", Destination: test.destination, RoutingKey: "pay.dlq"}
		topologytest.Equal(t, name, test.unwanted, slices.Contains(view.UnwantedFrom("dead", []vhost.Binding{binding}), binding.ID()))
	}
}

func TestAffectedByConsent(t *testing.T) {
	t.Parallel()
	const queue = `{deadLetter: {queue: {name: grave%s}}}`
	without, with := at(t, "shop", "orders", fmt.Sprintf(queue, ""), true), at(t, "shop", "orders", fmt.Sprintf(queue, ", sharedWith: [bank]"), true)
	user, other, told := at(t, "bank", "pay", withGrave, true), at(t, "bank", "other", `{}`, true), at(t, "shop", "told", withGrave, true)
	told.Status.Advisories = []v1alpha1.Advisory{{Code: v1alpha1.AdvisorySharedWithoutConsent, Name: "grave"}}
	index := indexed(user, other, told)
	for name, test := range map[string]struct {
		before, after *v1alpha1.ConsumerQueue
		want          []string
	}{
		"consent is given":                  {without, with, []string{"bank/pay", "shop/told"}},
		"consent is withdrawn":              {with, without, []string{"bank/pay", "shop/told"}},
		"one that shares changes otherwise": {with, with, []string{"shop/told"}},
		"one that shares nothing changes":   {other, other, nil},
	} {
		var names []string
		for _, key := range index.AffectedByConsent(test.before, test.after) {
			names = append(names, key.String())
		}
		topologytest.Equal(t, name, test.want, names)
	}
}
