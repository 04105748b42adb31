package consumerqueue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// refuseStatuses returns a function that reconciles several times while the API server refuses to write statuses.
func (w *recreationWorld) refuseStatuses() func(times int) {
	w.t.Helper()
	var refuses atomic.Bool
	w.reconciler.client = interceptor.NewClient(w.api, interceptor.Funcs{
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, resource string, object client.Object, options ...client.SubResourceUpdateOption,
		) error {
			if refuses.Load() {
				return errors.New("no space in etcd")
			}
			return c.SubResource(resource).Update(ctx, object, options...)
		},
	})
	return func(times int) {
		w.t.Helper()
		refuses.Store(true)
		defer refuses.Store(false)
		for range times {
			w.reconciler.index.Update(w.cached())
			if _, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: controllertest.Orders}); err == nil {
				w.t.Error("the API server did not refuse the status")
			}
		}
	}
}

// awaitEnd waits until no task runs.
func (w *recreationWorld) awaitEnd() {
	w.t.Helper()
	for _, runs := w.task(); runs; _, runs = w.task() {
		w.awaitTask()
	}
}

// The next attempt does not find the messages that this one has moved.
func TestAResultStaysUntilTheStatusHasIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		past    string
		suspend bool
		phase   v1alpha1.RecreationPhase
		reason  string
	}{
		"the swap is repeated": {past: "Accept", phase: v1alpha1.RecreationSwapping},
		"the swap is backed out, while suspended": {
			past: "Refuse", suspend: true, phase: v1alpha1.RecreationGivingBack, reason: v1alpha1.BackOutPublishersPastBindings,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			refuse := w.refuseStatuses()
			w.engine.swapped = recreate.Swapped{Moved: 3, Past: 2}
			release := make(chan struct{})
			w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error { <-release; return brokererr.ErrUnreachable }
			w.wantTTL(strings.Replace(whenEmpty, "{", "{recreation: {publishersPastBindings: "+test.past+"}, ", 1))
			w.reach(v1alpha1.RecreationSwapping)
			edited := w.get()
			edited.Spec.Suspend = test.suspend
			w.edit(edited.Spec)
			close(release)
			w.awaitEnd()
			refuse(2)
			for range 2 {
				w.once()
				status := w.get().Status.Recreation
				topologytest.Equal(t, "phase", test.phase, status.Phase)
				topologytest.Equal(t, "reason", test.reason, status.BackOutReason)
				topologytest.Equal(t, "moved", int64(3), status.Moved)
				topologytest.Equal(t, "past the bindings", int64(2), status.PastBindings)
			}
		})
	}
}

// Two tasks of one ConsumerQueue would move the same messages in both directions.
func TestARunningTaskIsNotReplaced(t *testing.T) {
	t.Parallel()
	enqueued, release := make(chan client.ObjectKey, 2), make(chan struct{})
	tasks := newRecreationTasks(t.Context(), func(key client.ObjectKey) { enqueued <- key })
	first := v1alpha1.RecreationStatus{ID: "a", Phase: v1alpha1.RecreationEmptying}
	second := v1alpha1.RecreationStatus{ID: "b", Phase: v1alpha1.RecreationGivingBack}
	begun := atomic.Int32{}
	gives := func(context.Context, func(recreate.Progress)) phaseResult {
		begun.Add(1)
		return phaseResult{}
	}
	tasks.begin(controllertest.Orders, first, func(context.Context, func(recreate.Progress)) phaseResult {
		<-release
		return phaseResult{}
	})
	tasks.begin(controllertest.Orders, second, gives)
	topologytest.Equal(t, "task", "a", tasks.get(controllertest.Orders, second).id)
	close(release)
	<-enqueued
	tasks.begin(controllertest.Orders, second, gives)
	<-enqueued
	topologytest.Equal(t, "begun", 1, begun.Load())
	topologytest.Equal(t, "task afterwards", "b", tasks.get(controllertest.Orders, second).id)
}
