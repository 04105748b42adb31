package consumerqueue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/deadline"
)

// remove removes the ConsumerQueue from the API server despite its finalizer. The reconciler receives the event; missed means that the watch
// was interrupted.
func (w *world) remove(missed bool) {
	w.t.Helper()
	last := w.get()
	freed := last.DeepCopy()
	freed.Finalizers = nil
	if err := w.api.Update(w.t.Context(), freed); err != nil {
		w.t.Fatal(err)
	}
	if err := w.api.Delete(w.t.Context(), freed); err != nil {
		w.t.Fatal(err)
	}
	w.reconciler.indexPeers().Delete(w.t.Context(), event.DeleteEvent{Object: last, DeleteStateUnknown: missed}, &enqueued{})
}

// The API server may remove a ConsumerQueue that is deleted while Warren adds the finalizer. Warren deletes its topology afterwards.
func TestAConsumerQueueThatWasRemovedDespiteItsFinalizer(t *testing.T) {
	t.Parallel()
	all := []string{"orders", "orders.dlq", "orders.retry.30s"}
	retained := func(kind, why string) []occurrence {
		return []occurrence{{
			kind, eventRetained, "Delete",
			`retained exchange "orders.dlx"; queue "orders"; queue "orders.retry.30s"; queue "orders.dlq": ` + why,
		}}
	}
	for name, test := range map[string]struct {
		more     string // appended to the spec
		claimed  bool   // Warren has written the intents and not yet the status
		missed   bool   // the watch was interrupted, and a user may have removed the finalizer
		messages int
		left     []string
		events   []occurrence
	}{
		"leaves nothing": {},
		"leaves nothing before its status is there": {claimed: true},
		"leaves nothing with deletionPolicy Delete": {more: `, deletionPolicy: Delete`},
		"leaves queues with messages": {
			more: `, deletionPolicy: Delete`, messages: 2, left: all,
			events: retained(corev1.EventTypeWarning, `not empty: queue "orders" holds 2 messages`),
		},
		"leaves everything with deletionPolicy Retain": {
			more: `, deletionPolicy: Retain`, left: all, events: retained(corev1.EventTypeNormal, policyRetains),
		},
		"leaves everything if the removal was not seen": {missed: true, left: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, `{retry: {delayTiers: [{delay: 30s}]}`+test.more+`}`))
			w.mustReconcile()
			w.broker.SetMessages("orders", test.messages)
			if test.claimed {
				cq := w.get()
				cq.Status = v1alpha1.ConsumerQueueStatus{ObservedGeneration: -1}
				if err := w.api.Status().Update(t.Context(), cq); err != nil {
					t.Fatal(err)
				}
			}
			w.remove(test.missed)
			w.recorder.occurred = nil
			NewWithT(t).Eventually(func() error {
				_, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
				if w.reconciler.unprotected.get(controllertest.Orders) != nil {
					return errInProgress
				}
				return err
			}).WithTimeout(deadline.For(10 * time.Second)).Should(Succeed())
			topologytest.Equal(t, "queues", test.left, w.queueNames(all...))
			topologytest.Equal(t, "Events", test.events, w.recorder.occurred, comparingOccurrences)
		})
	}
}

// A new ConsumerQueue of the same name keeps the topology.
func TestANewConsumerQueueFollowsOneThatWasRemovedDespiteItsFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{}`))
	w.mustReconcile()
	w.remove(false)
	if err := w.api.Create(t.Context(), controllertest.NewConsumerQueue(t, `{}`)); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile()
	if w.reconciler.unprotected.get(controllertest.Orders) != nil {
		t.Error("the topology of the new ConsumerQueue would be deleted")
	}
	topologytest.Equal(t, "Ready", metav1.ConditionTrue, conditions.Ready(w.get().Status.Conditions).Status)
}
