package deadletterjob

import (
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=redrives,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=redrives/status,verbs=update

// eventRedriven is the reason of the Event on the ConsumerQueue.
const eventRedriven = "Redriven"

type redriveWork struct {
	redrive *v1alpha1.Redrive
	job     Job
	status  *v1alpha1.RedriveStatus // of the Redrive
	finder  *Finder
}

func newRedriveWork(object client.Object, finder *Finder) Work {
	redrive := object.(*v1alpha1.Redrive)
	return &redriveWork{redrive: redrive, job: jobOf(redrive), status: &redrive.Status, finder: finder}
}

func (w *redriveWork) SyncProgress(task Task) *Blocker {
	if !task.HasBegun() {
		return nil
	}
	recordRedrive(w.status, task)
	if !task.Ended || task.Stopped {
		return nil
	}
	why := redriveOutcome(w.status, w.job.DryRun, w.redrive.Spec.MaxMessages, unseenBy(task), task.Err)
	if task.Move.Limited && !why.Final {
		return failed(why.Ready.Reason, "%s; %s. Queue %q has a delivery limit, so each further attempt could lose a message. "+
			"Fix the cause, then create another Redrive", w.Summary(), why.Ready.Message, w.status.Source)
	}
	return why
}

func (w *redriveWork) Config(m Move) (mover.Config, *Blocker) {
	redriveFilter, wrong := newRedriveFilter(w.redrive, m)
	if wrong != nil {
		return mover.Config{}, wrong
	}
	spec := w.redrive.Spec
	config := mover.Config{
		Destination: m.Destination, Behind: m.Behind, Filter: redriveFilter, Copier: redriveFilter,
		DryRun: w.job.DryRun, Selective: spec.Selector != nil || m.Source.Shared,
		DeliveryLimited: m.Limited, MaxFailures: 10,
		Apart: countedApart(redriveFilter.rules), MovedApart: int(ptr.Deref(w.status.UnknownOrigin, 0)),
	}
	if config.DryRun {
		config.MovedApart = 0 // a dry run counts from zero again
	} else {
		config.Moved, config.Unsure = doneBefore(&w.status.JobStatus, w.status.Moved)
		for _, failure := range w.status.Failures {
			config.Failures = append(config.Failures, mover.Failure{ID: failure.ID, Reason: failure.Reason, Message: failure.Message})
		}
	}
	if spec.MaxMessages != nil {
		config.Limit = int(*spec.MaxMessages)
	}
	if spec.MaxFailures != nil {
		config.MaxFailures = int(*spec.MaxFailures)
	}
	config.Report = newRedriveCounts(w.redrive.Namespace, m.ConsumerQueue, config.Moved).redriven
	if config.DryRun {
		config.Report = func(mover.Progress) {}
	}
	return config, nil
}

func (w *redriveWork) RecordIntent() {
	if w.status.Moved == nil {
		recordRedrive(w.status, Task{})
	}
}

func (w *redriveWork) Summary() string { return redriveSummary(w.status, w.job.DryRun) }

func (w *redriveWork) CompletionEvent() (reason, note string) {
	if ptr.Deref(w.status.Moved, 0) == 0 || w.job.DryRun {
		return "", ""
	}
	return eventRedriven, w.Summary()
}
