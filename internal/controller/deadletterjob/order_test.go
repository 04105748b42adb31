package deadletterjob

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestWhichRedriveComesFirst(t *testing.T) {
	t.Parallel()
	begun := func(r *v1alpha1.Redrive) { r.Status.Total = new(int64(5)) }
	for name, test := range map[string]struct {
		one, other *v1alpha1.Redrive
		want       bool
	}{
		"the older Redrive": {redriveOf("b", 1, nil), redriveOf("a", 2, nil), true},
		"the first name, if both were created in the same second": {redriveOf("a", 1, nil), redriveOf("b", 1, nil), true},
		"a Redrive that has begun":                                {redriveOf("b", 2, begun), redriveOf("a", 1, nil), true},
		"the older Redrive, if both have begun":                   {redriveOf("b", 1, begun), redriveOf("a", 2, begun), true},
		"no Redrive comes before itself":                          {redriveOf("a", 1, nil), redriveOf("a", 1, nil), false},
	} {
		topologytest.Equal(t, name, test.want, isBefore(ofRedrive(test.one), ofRedrive(test.other)))
		if test.want {
			topologytest.Equal(t, name+", with the arguments swapped", false, isBefore(ofRedrive(test.other), ofRedrive(test.one)))
		}
	}
}

func TestWantsTurn(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*v1alpha1.Redrive)
		want   bool
	}{
		"a new Redrive":       {nil, true},
		"a waiting Redrive":   {condition(v1alpha1.ConditionReconciling), true},
		"a finished Redrive":  {func(r *v1alpha1.Redrive) { r.Status.CompletionTime = &now }, false},
		"a deleted Redrive":   {func(r *v1alpha1.Redrive) { r.DeletionTimestamp = &now }, false},
		"spec.suspend is set": {func(r *v1alpha1.Redrive) { r.Spec.Suspend = true }, false},
	} {
		topologytest.Equal(t, name, test.want, wantsTurn(ofRedrive(redriveOf("a", 1, test.change))))
	}
}

// A Redrive that is blocked may wait for days. So only a Purge waits for it, because it could delete the messages of the Redrive.
func TestWaitsFor(t *testing.T) {
	t.Parallel()
	missesDestinationAnd := func(change func(*v1alpha1.Redrive)) *v1alpha1.Redrive {
		return redriveOf("first", 1, func(r *v1alpha1.Redrive) {
			missesDestination(r)
			change(r)
		})
	}
	missing := redriveOf("first", 1, missesDestination)
	redrive, purge := ofRedrive(redriveOf("second", 2, nil)), ofPurge(created(&v1alpha1.Purge{}, "second", 2))
	counts := purge
	counts.DryRun = true
	for name, test := range map[string]struct {
		job   Job
		first *v1alpha1.Redrive
		want  bool
	}{
		"a Redrive":                                 {redrive, missing, false},
		"a Purge":                                   {purge, missing, true},
		"a Purge that deletes nothing":              {counts, missing, false},
		"a Purge, and the Redrive is newer":         {purge, redriveOf("third", 3, missesDestination), false},
		"a Purge, and the Redrive is a dry run":     {purge, missesDestinationAnd(func(r *v1alpha1.Redrive) { r.Spec.DryRun = true }), false},
		"a Purge, and the Redrive is suspended":     {purge, missesDestinationAnd(func(r *v1alpha1.Redrive) { r.Spec.Suspend = true }), false},
		"a Redrive, and the other is Stalled":       {redrive, redriveOf("first", 1, condition(v1alpha1.ConditionStalled)), false},
		"a Purge, and the Redrive is Stalled":       {purge, redriveOf("first", 1, condition(v1alpha1.ConditionStalled)), true},
		"a Redrive, and a destination is suspended": {redrive, redriveOf("first", 1, condition(v1alpha1.ConditionSuspended)), false},
		"a Purge, and a destination is suspended":   {purge, redriveOf("first", 1, condition(v1alpha1.ConditionSuspended)), true},
		"a Redrive, and the other has begun": {
			redrive, missesDestinationAnd(func(r *v1alpha1.Redrive) { r.Status.Total = new(int64(5)) }), true,
		},
	} {
		topologytest.Equal(t, name, test.want, test.job.waitsFor(ofRedrive(test.first)))
	}
	stalled := ofPurge(created(&v1alpha1.Purge{}, "first", 1))
	stalled.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
	topologytest.Equal(t, "a Purge, and another Purge is Stalled", false, purge.waitsFor(stalled))
}

// condition gives a Redrive a condition that is True.
func condition(name string) func(*v1alpha1.Redrive) {
	return func(r *v1alpha1.Redrive) {
		r.Status.Conditions = []metav1.Condition{{Type: name, Status: metav1.ConditionTrue}}
	}
}

// missesDestination gives a Redrive the status of one that waits for its destination.
func missesDestination(r *v1alpha1.Redrive) {
	r.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDestinationMissing},
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDestinationMissing},
	}
}

// A destination may be missing for days.
func TestARedriveDoesNotWaitForOneWhoseDestinationIsMissing(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.create(redriveOf("older", 0, func(r *v1alpha1.Redrive) {
		r.Spec.ConsumerQueueRef.Name = "orders"
		missesDestination(r)
	}))
	topologytest.Equal(t, "reason", v1alpha1.ReasonMoving, conditions.Ready(w.reconcile().Status.Conditions).Reason)
}

func TestAPurgeWaitsForARedriveWhoseDestinationIsMissing(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.create(redriveOf("older", 0, func(r *v1alpha1.Redrive) {
		r.Spec.ConsumerQueueRef.Name = "orders"
		missesDestination(r)
	}))
	w.Reconcile()
	topologytest.Equal(t, "conditions", "Ready=Unknown Queued Reconciling=True Queued ", w.ready())
	topologytest.Equal(t, "message",
		`Redrive "older" comes first, but cannot continue (DestinationMissing). This Purge waits, because it could delete messages that the Redrive should move. `+
			`Fix the cause, or cancel or delete the Redrive`, conditions.Ready(w.get().Status.Conditions).Message)
}

// A cache lists objects in any order. If the message named any older Redrive, each reconciliation would write the status.
func TestAQueuedRedriveNamesTheFirstOne(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	ofOrders := func(r *v1alpha1.Redrive) { r.Spec.ConsumerQueueRef.Name = "orders" }
	w.create(redriveOf("second", 0, ofOrders))
	w.create(redriveOf("the first", -1, ofOrders))
	queued := w.reconcile()
	topologytest.Equal(t, "message", `Redrive "the first" comes first, and has not ended`, conditions.Ready(queued.Status.Conditions).Message)
	w.Reconciler.Client = backwards{w.API}
	topologytest.Equal(t, "version after a second reconciliation", queued.ResourceVersion, w.reconcile().ResourceVersion)
}

// The end of a Redrive enqueues only the next one, so that hundreds of queued Redrives cost little. The next one may be suspended or gone,
// and the Redrive behind it still gets its turn.
func TestQueuedRedrivesRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	w.Mover.Ended.Moved = 9
	names := []string{"last", "gone", "suspended", "second", again.Name}
	for i, name := range names[:4] {
		w.create(redriveOf(name, 9-i, func(r *v1alpha1.Redrive) { r.Spec.ConsumerQueueRef.Name = "orders" }))
	}
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }
	for _, name := range names {
		w.ReconcileAt(key(name))
	}
	suspended, gone := &v1alpha1.Redrive{}, &v1alpha1.Redrive{}
	topologytest.Equal(t, "error", nil, errors.Join(w.API.Get(t.Context(), key("suspended"), suspended), w.API.Get(t.Context(), key("gone"), gone)))
	suspended.Spec.Suspend = true
	topologytest.Equal(t, "error", nil, errors.Join(w.API.Update(t.Context(), suspended), w.API.Delete(t.Context(), gone)))

	end := func() {
		<-w.Mover.Begun
		w.Mover.End <- nil
	}
	end()
	for _, next := range []string{again.Name, "second", "second", "suspended", "gone", "last", "last"} {
		enqueued := <-w.Enqueued
		topologytest.Equal(t, "enqueued", next, enqueued.Name)
		topologytest.Equal(t, "others enqueued", 0, len(w.Enqueued))
		w.ReconcileAt(enqueued)
		if task := w.Reconciler.Tasks.get(Key{Redrive, enqueued}, "uid"); task.runs() {
			end()
		}
	}
	last := &v1alpha1.Redrive{}
	topologytest.Equal(t, "error", nil, w.API.Get(t.Context(), key("last"), last))
	topologytest.Equal(t, "conditions of the last", "Ready=True Completed Complete=True Completed ", readyOf(last))
}

func (w *world) create(redrive *v1alpha1.Redrive) {
	w.T.Helper()
	if err := w.API.Create(w.T.Context(), redrive); err != nil {
		w.T.Fatal(err)
	}
}

// backwards is a client that lists Redrives in the reverse order.
type backwards struct{ client.WithWatch }

func (b backwards) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := b.WithWatch.List(ctx, list, options...)
	if redrives, is := list.(*v1alpha1.RedriveList); is {
		slices.Reverse(redrives.Items)
	}
	return err
}
