package deadletterjob

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/text"
)

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=purges,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=purges/status,verbs=update

// eventPurged is the reason of the Event on the ConsumerQueue.
const eventPurged = "Purged"

type purgeWork struct {
	purge  *v1alpha1.Purge
	job    Job
	status *v1alpha1.PurgeStatus // of the Purge
}

func newPurgeWork(object client.Object) Work {
	purge := object.(*v1alpha1.Purge)
	return &purgeWork{purge: purge, job: jobOf(purge), status: &purge.Status}
}

// SyncProgress implements Work for the task that counts and the task that deletes.
func (w *purgeWork) SyncProgress(task Task) *Blocker {
	switch {
	case !task.HasBegun():
	case task.config.Delete:
		w.status.Deleted = recordDone(&w.status.JobStatus, task)
	default:
		recordProgress(&w.status.JobStatus, task)
	}
	switch {
	case isDeleting(w.status) && (task.Ended || !task.HasBegun()): // how many messages are deleted is unknown
		return failed(v1alpha1.ReasonInterrupted, "%s", interruption(w.status))
	case !task.Ended, task.Stopped:
		return nil
	case task.Err != nil:
		return taskFailed(Purge, &w.status.JobStatus, w.Summary(), task.Err)
	case task.config.Delete:
		return afterDeletion(w.status, unseenBy(task))
	}
	w.status.Matched = new(int64(task.Progress.Moved))
	return afterCount(w.purge, unseenBy(task))
}

// isCounted reports whether all messages were counted, so that the matching ones may be deleted.
func (w *purgeWork) isCounted() bool { return w.status.Matched != nil }

// ResolveDestination refuses a queue with a delivery limit. A Purge reads all messages before it deletes some, so the broker
// could drop messages that must stay.
func (w *purgeWork) ResolveDestination(_ context.Context, _ Queue, m *Move) (*Blocker, error) {
	if m.Limited {
		return stalled(v1alpha1.ReasonDeliveryLimited,
			"queue %q has a delivery limit, so the broker may delete messages that are examined and returned. A Purge examines "+
				"all messages to count them. Recreate the queue with deliveryLimit Unlimited, or move all messages to another "+
				"ConsumerQueue by a Redrive", m.Queue.Name), nil
	}
	return nil, nil
}

// Config returns the count or, after it, the deletion of at most as many messages as the count matched.
func (w *purgeWork) Config(m Move) (mover.Config, *Blocker) {
	purgeFilter, wrong := newPurgeFilter(w.purge, m)
	if wrong != nil {
		return mover.Config{}, wrong
	}
	counted := newPurgeCounts(w.purge.Namespace, m.ConsumerQueue, int(ptr.Deref(w.status.Deleted, 0)))
	config := mover.Config{Filter: purgeFilter, DryRun: true, Apart: countedApart(purgeFilter.rules), Report: counted.countSkipped}
	if w.job.DryRun {
		config.Report = func(mover.Progress) {}
	}
	if w.isCounted() {
		config.DryRun, config.Delete, config.Report = false, true, counted.purged
		config.Moved, config.Limit = int(ptr.Deref(w.status.Deleted, 0)), int(*w.status.Matched)
		config.Selective = w.purge.Spec.Selector != nil || m.Source.Shared
	}
	return config, nil
}

func (w *purgeWork) RecordIntent() {
	if w.status.Deleted == nil {
		w.status.Deleted, w.status.Examined = new(int64(0)), new(int64(0))
	}
}

func (w *purgeWork) RunningCondition(progress mover.Progress, m Move) conditions.Value {
	if w.isCounted() {
		return runningCondition(progress, v1alpha1.ReasonDeleting, fmt.Sprintf(
			"deleting %s of queue %q", text.Count(*w.status.Matched, "message"), m.Queue.Name))
	}
	return runningCondition(progress, v1alpha1.ReasonCounting, fmt.Sprintf("counting the messages of queue %q that match", m.Queue.Name))
}

func (w *purgeWork) Summary() string { return purgeSummary(w.status) }

func (w *purgeWork) CompletionEvent() (reason, note string) {
	switch {
	case isDeleting(w.status):
		return eventPurged, interruption(w.status)
	case ptr.Deref(w.status.Deleted, 0) == 0:
		return "", ""
	}
	return eventPurged, w.Summary()
}
