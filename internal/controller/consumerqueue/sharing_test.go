package consumerqueue

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestSharedDeadLetterQueue(t *testing.T) {
	t.Parallel()
	shared := []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisorySharedDeadLetterQueue, Name: "grave",
		Message: `other ConsumerQueues also use the dead-letter queue "grave". A Redrive skips parked messages that lack the header ` +
			"x-failure-queue, because it cannot determine their ConsumerQueue. With spec.selector.unknownOrigin it moves these messages for all " +
			"ConsumerQueues. Set the header in the consumers, or give each ConsumerQueue its own dead-letter queue",
	}}
	synced := func(name, spec string) *v1alpha1.ConsumerQueue { return controllertest.Synced(t, name, spec, "") }
	for name, test := range map[string]struct {
		one    *v1alpha1.ConsumerQueue
		others []*v1alpha1.ConsumerQueue
		want   []v1alpha1.Advisory
	}{
		"no other ConsumerQueue":                      {one: synced("one", withGrave)},
		"another ConsumerQueue has the queue":         {synced("one", withGrave), []*v1alpha1.ConsumerQueue{synced("other", withGrave)}, shared},
		"several other ConsumerQueues have the queue": {synced("one", withGrave), []*v1alpha1.ConsumerQueue{synced("other", withGrave), synced("third", withGrave)}, shared},
		"another ConsumerQueue has another queue":     {synced("one", withGrave), []*v1alpha1.ConsumerQueue{synced("other", `{}`)}, nil},
		"the other ConsumerQueue is being deleted":    {synced("one", withGrave), []*v1alpha1.ConsumerQueue{controllertest.BeingDeleted(synced("other", withGrave))}, nil},
		"the spec of the other ConsumerQueue does not name it any more": {
			synced("one", withGrave), []*v1alpha1.ConsumerQueue{controllertest.Synced(t, "other", withGrave, `{}`)}, nil,
		},
		"the other ConsumerQueue names the queue and does not have it": {synced("one", withGrave), []*v1alpha1.ConsumerQueue{controllertest.Named(t, "shop", "other", withGrave)}, nil},
		"the ConsumerQueue has no dead-letter queue":                   {synced("one", `{deadLetter: {policy: Disabled}, retry: {policy: None}}`), []*v1alpha1.ConsumerQueue{synced("other", withGrave)}, nil},
		"another ConsumerQueue shares only an exchange": {
			synced("one", `{deadLetter: {exchange: {name: dead, type: direct}}}`),
			[]*v1alpha1.ConsumerQueue{synced("other", `{deadLetter: {exchange: {name: dead, type: direct}}}`)},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desired, err := topology.Desired(test.one, topologytest.V43)
			if err != nil {
				t.Fatal(err)
			}
			v := &vhostScope{desired: desired, peers: viewOf(test.one, test.others...)}
			topologytest.Equal(t, "advisories", test.want, v.sharedDeadLetterQueue())
		})
	}
}

// Until Warren has matched the connection of another namespace, it does not know where that connection leads. A dead-letter queue counts as
// shared if the spec shares it with that namespace.
func TestSharesQueueWithAConnectionThatIsNotOpen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   string
		shares bool
	}{
		"with consent":    {`{deadLetter: {queue: {name: grave, sharedWith: [bank]}}}`, true},
		"without consent": {withGrave, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, other := controllertest.ConsumerQueue(t, test.spec), controllertest.Named(t, "bank", "pay", withGrave)
			w := newWorld(t, own, other)
			w.reconciler.index.Update(w.get())
			w.reconciler.index.Update(other)
			shares, known := w.reconciler.SharesQueue(t.Context(), w.get(), "grave", topologytest.V43)
			topologytest.Equal(t, "known", true, known)
			topologytest.Equal(t, "shares", test.shares, shares)
		})
	}
}

// A Redrive waits until Warren knows which ConsumerQueues share the queue. Otherwise it would take messages of other ConsumerQueues.
func TestWarrenDoesNotKnowWhetherAQueueIsShared(t *testing.T) {
	t.Parallel()
	connection := client.ObjectKey{Namespace: "shop", Name: "default"}
	for name, change := range map[string]func(w *world){
		"the index lacks the ConsumerQueue": func(w *world) { w.reconciler.index = ownership.NewIndex() },
		"the connection is not open":        func(w *world) { w.reconciler.pool.Close(connection) },
		"the broker does not show where the connection of another namespace leads": func(w *world) {
			other := client.ObjectKey{Namespace: "bank", Name: "default"}
			_, err := w.reconciler.pool.Ensure(other, time.Time{}, rabbit.Config{Owner: "bank"})
			topologytest.Equal(w.t, "error", nil, err)
			w.reconciler.pool.Get(connection).Probe = unreachableAPI{w.broker}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.ConsumerQueue(t, withGrave))
			w.reconciler.index.Update(w.get())
			change(w)
			_, known := w.reconciler.SharesQueue(t.Context(), w.get(), "grave", topologytest.V43)
			topologytest.Equal(t, "known", false, known)
		})
	}
}

// unreachableAPI is a connection whose management API does not answer.
type unreachableAPI struct{ brokers.Probe }

func (unreachableAPI) LeadsTo(context.Context, rabbit.Health) (bool, error) {
	return false, brokererr.ErrUnreachable
}

func TestSharedWithoutConsent(t *testing.T) {
	t.Parallel()
	holder, user := controllertest.Synced(t, "one", withGrave, ""), controllertest.Synced(t, "other", withGrave, "")
	user.Namespace = "zoo"
	for name, test := range map[string]struct {
		own, other *v1alpha1.ConsumerQueue
		message    string
	}{
		"the holder": {holder, user, `queue "grave" is used by a ConsumerQueue of another namespace that spec.deadLetter.queue.sharedWith does not ` +
			`list. Add the namespace, or ask its users to choose another name`},
		"the user": {user, holder, `queue "grave" belongs to a ConsumerQueue in another namespace that no longer shares it. ` +
			`This ConsumerQueue keeps using it. Ask its owner to add namespace "zoo" to spec.deadLetter.queue.sharedWith, or choose another name`},
	} {
		desired, err := topology.Desired(test.own, topologytest.V43)
		if err != nil {
			t.Fatal(err)
		}
		v := &vhostScope{
			scope: &scope{report: report{cq: test.own}}, desired: desired, owned: topology.Owned(test.own.Status.Topology), peers: viewOf(test.own, test.other),
		}
		want := []v1alpha1.Advisory{{Code: v1alpha1.AdvisorySharedWithoutConsent, Name: "grave", Message: test.message}}
		topologytest.Equal(t, name, want, v.sharedWithoutConsent())
	}
}

// The only holder of a dead-letter queue is enqueued when a second ConsumerQueue begins to share it, and when only one holder
// remains. The second ConsumerQueue is enqueued, too: two that are reconciled at the same time do not see each other. Other changes
// enqueue nothing.
func TestTheOnlyHolderIsEnqueuedWhenSharingChanges(t *testing.T) {
	t.Parallel()
	synced := func(name, spec string) *v1alpha1.ConsumerQueue { return controllertest.Synced(t, name, spec, "") }
	one, other, third := synced("one", withGrave), synced("other", withGrave), synced("third", withGrave)
	wants, elsewhere := controllertest.Named(t, "shop", "other", withGrave), synced("elsewhere", withGrave)
	elsewhere.Status.Location.VHost = "another"
	knowing := other.DeepCopy()
	knowing.Status.Advisories = []v1alpha1.Advisory{{Code: v1alpha1.AdvisorySharedDeadLetterQueue}}
	for name, test := range map[string]struct {
		known         []*v1alpha1.ConsumerQueue
		before, after *v1alpha1.ConsumerQueue // after is nil if it is gone
		want          []string
	}{
		"a second ConsumerQueue gets the queue":       {[]*v1alpha1.ConsumerQueue{one}, wants, other, []string{"shop/one", "shop/other"}},
		"a third that sees its peers gets the queue":  {[]*v1alpha1.ConsumerQueue{one, third}, wants, knowing, nil},
		"a third ConsumerQueue gets the queue":        {[]*v1alpha1.ConsumerQueue{one, third}, wants, other, []string{"shop/other"}},
		"the second is being deleted":                 {[]*v1alpha1.ConsumerQueue{one}, other, controllertest.BeingDeleted(other.DeepCopy()), []string{"shop/one"}},
		"the second is gone":                          {[]*v1alpha1.ConsumerQueue{one}, other, nil, []string{"shop/one"}},
		"the second names another queue":              {[]*v1alpha1.ConsumerQueue{one}, other, controllertest.Synced(t, "other", withGrave, `{}`), []string{"shop/one"}},
		"one of three is being deleted":               {[]*v1alpha1.ConsumerQueue{one, third}, other, controllertest.BeingDeleted(other.DeepCopy()), nil},
		"the second does not change":                  {[]*v1alpha1.ConsumerQueue{one}, other, other, nil},
		"the first is in another vhost":               {[]*v1alpha1.ConsumerQueue{elsewhere}, wants, other, nil},
		"a third is in another vhost":                 {[]*v1alpha1.ConsumerQueue{one, elsewhere}, wants, other, []string{"shop/one", "shop/other"}},
		"a third lost the conflict":                   {[]*v1alpha1.ConsumerQueue{one, controllertest.Named(t, "shop", "rival", withBigGrave)}, wants, other, []string{"shop/one", "shop/other"}},
		"the spec of a third does not name the queue": {[]*v1alpha1.ConsumerQueue{one, controllertest.Synced(t, "old", withGrave, `{}`)}, wants, other, []string{"shop/one", "shop/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, queue := &Reconciler{index: indexOf(append(test.known, test.before)...)}, &enqueued{}
			if test.after == nil {
				r.indexPeers().Delete(t.Context(), event.DeleteEvent{Object: test.before}, queue)
			} else {
				r.indexPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}, queue)
			}
			topologytest.Equal(t, "enqueued", test.want, queue.once())
		})
	}
}

// Advisories about the dead-letter queue appear with the first reconciliation, end with their cause, and leave Ready as it is.
func TestAdvisoriesOfTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{deadLetter: {queue: {messageTTL: 1h}}}`))
	codes := func() []v1alpha1.AdvisoryCode {
		t.Helper()
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		var found []v1alpha1.AdvisoryCode
		for _, advisory := range w.get().Status.Advisories {
			found = append(found, advisory.Code)
		}
		topologytest.Equal(t, "Ready", "True", string(conditions.Ready(w.get().Status.Conditions).Status))
		return found
	}
	topologytest.Equal(t, "at first", []v1alpha1.AdvisoryCode{v1alpha1.AdvisoryDeadLettersExpire}, codes())
	version := w.get().ResourceVersion
	codes()
	topologytest.Equal(t, "version of an unchanged status", version, w.get().ResourceVersion)
	limit := vhost.Policy{Name: "p", Pattern: vhost.ReadPattern(`\.dlq$`), ApplyTo: "queues", Definition: vhost.Arguments{vhost.KeyDeliveryLimit: 5}}
	w.broker.Change(func(s *snapshot.Snapshot) { s.Policies = []vhost.Policy{limit} })
	topologytest.Equal(t, "under a policy", []v1alpha1.AdvisoryCode{
		v1alpha1.AdvisoryShadowedByPolicy, v1alpha1.AdvisoryDeadLettersCanBeLost, v1alpha1.AdvisoryDeadLettersExpire,
	}, codes())
	w.broker.Change(func(s *snapshot.Snapshot) { s.Policies = nil })
	topologytest.Equal(t, "without the policy", []v1alpha1.AdvisoryCode{v1alpha1.AdvisoryDeadLettersExpire}, codes())
}
