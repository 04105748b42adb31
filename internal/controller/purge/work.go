package purge

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/deadletterqueue"
	"github.com/warren-mq/warren/internal/controller/transfers"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=purges,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=purges/status,verbs=update

// eventPurged is the reason of an Event on the ConsumerQueue.
const eventPurged = "Purged"

// work is one reconciliation of a Purge.
type work struct {
	purge  *v1alpha1.Purge
	job    transfers.Job
	status *v1alpha1.PurgeStatus // of the Purge
}

// Start is the Work of a Purge.
func Start(object client.Object, _ *deadletterqueue.Finder) transfers.Work {
	purge := object.(*v1alpha1.Purge)
	return &work{purge: purge, job: transfers.JobOf(purge), status: &purge.Status}
}

func (w *work) Job() transfers.Job { return w.job }

// Heed takes over how a transfer fares, the one that counts or the one that deletes.
func (w *work) Heed(task transfers.Task) *transfers.Halt {
	if task.HasBegun() && w.isCounted() {
		w.status.Deleted = transfers.RecordDone(&w.status.TransferStatus, task)
	}
	if task.HasBegun() && !w.isCounted() {
		recordCount(w.status, task.Progress)
	}
	switch {
	case isDeleting(w.status) && (task.Ended || !task.HasBegun()): // nobody knows what the broker has heard
		return transfers.Failed(v1alpha1.ReasonInterrupted, interruption(w.status))
	case !task.Ended, task.Stopped:
		return nil
	case task.Err != nil:
		return transfers.WhyEnded(transfers.Purge, &w.status.TransferStatus, w.Tally(), task.Err)
	case w.isCounted():
		return afterDeletion(w.status)
	}
	w.status.Matched = new(int64(task.Progress.Moved))
	return afterCount(w.purge)
}

// isCounted says whether all messages were counted, so that what matches may be deleted.
func (w *work) isCounted() bool { return w.status.Matched != nil }

// Destine says whether messages may be taken out of the dead-letter queue. A Purge always looks before it deletes, so a queue that limits
// deliveries might lose messages that are to stay.
func (w *work) Destine(_ context.Context, _ deadletterqueue.Queue, m *transfers.Move) (*transfers.Halt, error) {
	if m.Limited {
		return transfers.Stalled(v1alpha1.ReasonDeliveryLimited, fmt.Sprintf(
			"queue %q has a delivery limit: the broker may delete messages that are looked at and stay, and a Purge looks at all of "+
				"them to count. Have the queue recreated with deliveryLimit Unlimited, or move all messages to another ConsumerQueue "+
				"by a Redrive", m.Turn.Queue)), nil
	}
	return nil, nil
}

// Config is the count, and when that is done, the deletion. No more messages are deleted than matched.
func (w *work) Config(m transfers.Move) (transfer.Config, *transfers.Halt) {
	judge, wrong := judgeOf(w.purge, m)
	if wrong != nil {
		return transfer.Config{}, wrong
	}
	counted := counts{labels: []string{w.purge.Namespace, m.ConsumerQueue}, deleted: int(transfers.Number(w.status.Deleted))}
	config := transfer.Config{Judge: judge, DryRun: true, Apart: transfers.Apart(judge.rules), Report: counted.countSkipped}
	if w.job.DryRun {
		config.Report = func(transfer.Progress) {}
	}
	if w.isCounted() {
		config.DryRun, config.Delete, config.Report = false, true, counted.countDeleted
		config.Moved, config.Limit = int(transfers.Number(w.status.Deleted)), int(*w.status.Matched)
		config.Selective = w.purge.Spec.Selector != nil || m.Source.Shared
	}
	return config, nil
}

// Settings are those of a transfer that may change while it runs.
func (w *work) Settings() transfer.Settings {
	return transfer.Settings{Rate: transfers.NumberOf(w.purge.Spec.Rate, 0), MaxDepth: -1}
}

// Plan sets the numbers of a Purge that begins.
func (w *work) Plan() {
	if w.status.Deleted == nil {
		w.status.Deleted, w.status.Examined = new(int64(0)), new(int64(0))
	}
}

// Doing is the value of Ready while a transfer goes on.
func (w *work) Doing(progress transfer.Progress, m transfers.Move) conditions.Value {
	if w.isCounted() {
		return transfers.Doing(progress, v1alpha1.ReasonDeleting, fmt.Sprintf(
			"deletes %s of queue %q", transfers.Messages(*w.status.Matched), m.Turn.Queue))
	}
	return transfers.Doing(progress, v1alpha1.ReasonCounting, fmt.Sprintf("counts the messages of queue %q that match", m.Turn.Queue))
}

func (w *work) Tally() string { return tally(w.status) }

// Deed has an Event say on the ConsumerQueue how many of its dead letters were deleted.
func (w *work) Deed() (reason, note string) {
	switch {
	case isDeleting(w.status):
		return eventPurged, interruption(w.status)
	case transfers.Number(w.status.Deleted) == 0:
		return "", ""
	}
	return eventPurged, w.Tally()
}
