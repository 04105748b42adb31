package deadletterjob

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

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/metrics"
)

// Reconciler reconciles the jobs of one kind.
type Reconciler struct {
	Kind     Kind
	Client   client.Client
	Recorder events.EventRecorder
	Finder   *Finder
	Tasks    *Tasks
	// Limiter reserves workers for other namespaces while jobs wait for brokers that answer slowly.
	Limiter *brokers.Limiter
	Now     func() time.Time
	Log     logr.Logger
}

// Reconcile advances a job that has not ended, and deletes a job whose ttlSecondsAfterFinished has passed.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, waitsToCount, err := r.reconcile(ctx, request)
	isStale := statuswriter.IsStale(err)
	if !waitsToCount || isStale {
		r.Limiter.Decline(request.NamespacedName)
	}
	if isStale {
		return ctrl.Result{RequeueAfter: trigger.Jittered(trigger.CacheSyncDelay)}, nil
	}
	return result, client.IgnoreNotFound(err)
}

// reconcile does the work of Reconcile. waitsToCount reports whether the job waits for a slot of the Limiter. If the job in the cache is
// old, reconcile returns an error for which statuswriter.IsStale is true.
func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, waitsToCount bool, err error) {
	key := Key{r.Kind, request.NamespacedName}
	object := r.Kind.empty()
	err = r.Client.Get(ctx, request.NamespacedName, object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, false, fmt.Errorf("get %s: %w", r.Kind, err)
	}
	if apierrors.IsNotFound(err) || !object.GetDeletionTimestamp().IsZero() {
		r.Tasks.forget(key, "")
		r.Tasks.statuses[r.Kind].Forget(request.NamespacedName)
		return ctrl.Result{}, false, nil
	}
	r.Tasks.forget(key, object.GetUID())
	if r.Tasks.statuses[r.Kind].IsOlder(object) {
		return ctrl.Result{}, false, statuswriter.ErrStaleCache
	}
	if jobOf(object).Status.CompletionTime != nil {
		result, err := r.expire(ctx, jobOf(object))
		return result, false, err
	}
	retry, waitsToCount, err := r.advance(ctx, object)
	return ctrl.Result{RequeueAfter: retry}, waitsToCount, err
}

// advance reconciles a job that has not ended.
func (r *Reconciler) advance(ctx context.Context, object client.Object) (retry time.Duration, waitsToCount bool, err error) {
	if err := r.excludeFromBackup(ctx, jobOf(object)); err != nil {
		return 0, false, err
	}
	s := r.scopeOf(object)
	retry, err = s.reconcile(ctx)
	metrics.Reconciliations.Inc(string(r.Kind), result(err), conditions.Ready(s.status.Conditions).Reason)
	return retry, s.waitsToCount, err
}

// result returns the label value for the outcome of a reconciliation.
func result(err error) string {
	switch {
	case statuswriter.IsStale(err):
		return "waiting"
	case err != nil:
		return "failed"
	}
	return "done"
}

// expire deletes a job whose ttlSecondsAfterFinished has passed.
func (r *Reconciler) expire(ctx context.Context, job Job) (ctrl.Result, error) {
	r.Tasks.drop(job.key(), job.GetUID())
	if job.Status.ObservedGeneration != job.GetGeneration() {
		s := r.scopeOf(job.Object)
		if err := s.observeGeneration(ctx); err != nil {
			return ctrl.Result{}, err
		}
		job = s.before
	}
	if err := r.recordCompletion(ctx, job); err != nil {
		return ctrl.Result{}, err
	}
	if job.TTL == nil {
		return ctrl.Result{}, nil
	}
	left := job.Status.CompletionTime.Add(time.Duration(*job.TTL) * time.Second).Sub(r.Now())
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	uid, version := job.GetUID(), job.GetResourceVersion()
	// A conflict means that the job was changed, perhaps its ttlSecondsAfterFinished.
	return ctrl.Result{}, r.Client.Delete(ctx, job.Object, client.Preconditions{UID: &uid, ResourceVersion: &version})
}

// Start waits until the manager stops. It then writes the final progress of the running tasks.
func (r *Reconciler) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Tasks.awaitEnd()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	all := r.Tasks.begun(r.Kind)
	failures := make([]error, 0, len(all))
	for key, ended := range all {
		object := r.Kind.empty()
		err := r.Client.Get(last, key.ObjectKey, object)
		if err == nil && object.GetUID() == ended.uid && jobOf(object).Status.CompletionTime == nil {
			s := r.scopeOf(object)
			ended.Stopped = true
			s.work.SyncProgress(ended)
			s.logOutcome("Stopped")
			err = s.write(last)
		}
		failures = append(failures, client.IgnoreNotFound(err))
	}
	return errors.Join(failures...)
}

// lastWrites is how long Start may take to write the progress of the tasks.
const lastWrites = 5 * time.Second

// EmitMetrics emits the metrics of all jobs of the kind.
func (r *Reconciler) EmitMetrics(emit metrics.Emit) {
	jobs, err := r.Kind.list(context.Background(), r.Client)
	if err != nil { // the cache has stopped
		return
	}
	counts := conditions.NewCounts(string(r.Kind))
	for _, job := range jobs {
		counts.Add(emit, job.Object, job.Status.Conditions)
	}
	counts.Emit(emit)
}
