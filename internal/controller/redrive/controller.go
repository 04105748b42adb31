package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/ssa"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/vhost"
)

// SharesQueue says whether another ConsumerQueue wants a queue, too; known is false while that cannot be said.
type SharesQueue func(ctx context.Context, cq *v1alpha1.ConsumerQueue, queue string, version vhost.Version) (shares, known bool)

// Reconciler carries out Redrives.
type Reconciler struct {
	client      client.Client
	recorder    events.EventRecorder
	pool        *brokers.Pool
	sharesQueue SharesQueue
	tasks       *tasks
	written     ssa.WriteTracker
	now         func() time.Time
	log         logr.Logger
}

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=redrives,verbs=list;watch;delete
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=redrives/status,verbs=update

// Reconcile brings a Redrive forward: it waits for its turn, moves messages, or has ended.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	redrive := &v1alpha1.Redrive{}
	err := r.client.Get(ctx, request.NamespacedName, redrive)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get Redrive: %w", err)
	}
	if apierrors.IsNotFound(err) || !redrive.DeletionTimestamp.IsZero() {
		r.tasks.forget(request.NamespacedName, "")
		r.written.Forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	r.tasks.forget(request.NamespacedName, redrive.UID)
	if r.written.IsOlder(redrive) {
		return ctrl.Result{RequeueAfter: trigger.CacheSyncDelay}, nil
	}
	if redrive.Status.CompletionTime != nil {
		return r.expire(ctx, redrive)
	}
	s := &scope{Reconciler: r, redrive: redrive, status: redrive.Status.DeepCopy()}
	retry, err := s.reconcile(ctx)
	metrics.Reconciliations.Inc(kind, result(err), conditions.Ready(s.status.Conditions).Reason)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: trigger.Jittered(trigger.CacheSyncDelay)}, nil
	}
	return ctrl.Result{RequeueAfter: retry}, client.IgnoreNotFound(err)
}

// result is what metrics call the end of a reconciliation.
func result(err error) string {
	switch {
	case apierrors.IsConflict(err):
		return "waiting"
	case err != nil:
		return "failed"
	}
	return "done"
}

// expire deletes a Redrive that has ended for long enough.
func (r *Reconciler) expire(ctx context.Context, redrive *v1alpha1.Redrive) (ctrl.Result, error) {
	r.tasks.drop(client.ObjectKeyFromObject(redrive))
	ttl := redrive.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return ctrl.Result{}, nil
	}
	left := redrive.Status.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(r.now())
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.client.Delete(ctx, redrive, client.Preconditions{UID: &redrive.UID, ResourceVersion: &redrive.ResourceVersion})
	if apierrors.IsConflict(err) { // it was changed: its ttlSecondsAfterFinished perhaps
		return ctrl.Result{RequeueAfter: trigger.Jittered(trigger.CacheSyncDelay)}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// Start writes, when the manager stops, how far the transfers have come that it has ended.
func (r *Reconciler) Start(ctx context.Context) error {
	<-ctx.Done()
	r.tasks.awaitEnd()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	all := r.tasks.begun()
	failures := make([]error, 0, len(all))
	for key, ended := range all {
		redrive := &v1alpha1.Redrive{}
		err := r.client.Get(last, key, redrive)
		if err == nil && redrive.UID == ended.uid && redrive.Status.CompletionTime == nil {
			s := &scope{Reconciler: r, redrive: redrive, status: redrive.Status.DeepCopy()}
			record(s.status, ended.progress)
			err = s.write(last)
		}
		failures = append(failures, client.IgnoreNotFound(err))
	}
	return errors.Join(failures...)
}

// lastWrites is how long the last writes of statuses may take.
const lastWrites = 5 * time.Second
