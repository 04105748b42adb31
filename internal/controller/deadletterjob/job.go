package deadletterjob

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// Kind is Redrive or Purge.
type Kind string

// The kinds of jobs.
const (
	Redrive Kind = "Redrive"
	Purge   Kind = "Purge"
)

// Key names a job. A request of the dead-letter API has the name of its ConsumerQueue and no Kind.
type Key struct {
	Kind Kind
	client.ObjectKey
}

// Job has what a Redrive and a Purge share.
type Job struct {
	client.Object
	Kind                    Kind
	ConsumerQueue           string
	DryRun, Suspend, Cancel bool
	// RequestedBy and Reason are empty if the spec does not set them.
	RequestedBy, Reason string
	Select              *v1alpha1.DeadLetterSelector
	// Logged are keys and values of the spec for the log that only jobs of this kind have.
	Logged []any
	// TTL is how many seconds the job is kept after it has ended; nil means forever.
	TTL *int32
	// Rate and MaxDepth limit the move; see mover.Settings. They may change while the task runs.
	Rate, MaxDepth int
	// Status points into Object.
	Status *v1alpha1.JobStatus
}

// Work is the difference between a Redrive and a Purge. A Work belongs to one reconciliation of one job, and changes the status of
// the job.
type Work interface {
	// SyncProgress copies the progress of the task into the status. The task is zero if none has begun. It returns a Blocker if the job has
	// ended or cannot continue. If it returns nil for a task that has ended, the job needs another task.
	SyncProgress(task Task) *Blocker
	// ResolveDestination sets the destination of the Move. It returns a Blocker if messages cannot go there.
	ResolveDestination(ctx context.Context, from Queue, move *Move) (*Blocker, error)
	// Config returns the move without Log, Queue, Total and Settings. It returns a Blocker if the selector is invalid.
	Config(move Move) (mover.Config, *Blocker)
	// RecordIntent prepares the status of a job that begins. The status is written before the first message is taken.
	RecordIntent()
	// RunningCondition returns the value of Ready while the task runs.
	RunningCondition(progress mover.Progress, move Move) conditions.Value
	// Summary describes the counts of the job in a sentence.
	Summary() string
	// CompletionEvent returns the Event on the ConsumerQueue when the job has ended. The reason is empty if there is none.
	CompletionEvent() (reason, note string)
}

func (k Kind) workOn(object client.Object, finder *Finder) Work {
	if k == Purge {
		return newPurgeWork(object)
	}
	return newRedriveWork(object, finder)
}

func ofRedrive(r *v1alpha1.Redrive) Job {
	return Job{
		Object: r, Kind: Redrive, ConsumerQueue: r.Spec.ConsumerQueueRef.Name, DryRun: r.Spec.DryRun,
		Suspend: r.Spec.Suspend, Cancel: r.Spec.Cancel, TTL: r.Spec.TTLSecondsAfterFinished, Status: &r.Status.JobStatus,
		RequestedBy: r.Spec.RequestedBy, Reason: r.Spec.Reason, Select: r.Spec.Selector,
		Rate: numberOf(r.Spec.Rate, 0), MaxDepth: numberOf(r.Spec.MaxDestinationDepth, -1), Logged: redriveParameters(&r.Spec),
	}
}

func ofPurge(p *v1alpha1.Purge) Job {
	return Job{
		Object: p, Kind: Purge, ConsumerQueue: p.Spec.ConsumerQueueRef.Name, DryRun: p.Spec.DryRun,
		Suspend: p.Spec.Suspend, Cancel: p.Spec.Cancel, TTL: p.Spec.TTLSecondsAfterFinished, Status: &p.Status.JobStatus,
		RequestedBy: p.Spec.RequestedBy, Reason: p.Spec.Reason, Select: p.Spec.Selector,
		Rate: numberOf(p.Spec.Rate, 0), MaxDepth: -1, Logged: []any{"expectedAtMost", p.Spec.ExpectedAtMost},
	}
}

// jobOf returns the common part of a Redrive or a Purge.
func jobOf(object client.Object) Job {
	if purge, ok := object.(*v1alpha1.Purge); ok {
		return ofPurge(purge)
	}
	return ofRedrive(object.(*v1alpha1.Redrive))
}

func (k Kind) empty() client.Object {
	if k == Purge {
		return &v1alpha1.Purge{}
	}
	return &v1alpha1.Redrive{}
}

// list returns the jobs of the kind from the cache. The caller must not change them.
func (k Kind) list(ctx context.Context, reader client.Reader, only ...client.ListOption) ([]Job, error) {
	var list client.ObjectList = &v1alpha1.RedriveList{}
	if k == Purge {
		list = &v1alpha1.PurgeList{}
	}
	if err := reader.List(ctx, list, append([]client.ListOption{client.UnsafeDisableDeepCopy}, only...)...); err != nil {
		return nil, fmt.Errorf("list %ss: %w", k, err)
	}
	var jobs []Job
	err := meta.EachListItem(list, func(object runtime.Object) error {
		jobs = append(jobs, jobOf(object.(client.Object)))
		return nil
	})
	return jobs, err
}

// listJobs returns the Redrives and the Purges from the cache. The caller must not change them.
func listJobs(ctx context.Context, reader client.Reader, only ...client.ListOption) ([]Job, error) {
	redrives, err := Redrive.list(ctx, reader, only...)
	if err != nil {
		return nil, err
	}
	purges, err := Purge.list(ctx, reader, only...)
	return append(redrives, purges...), err
}

func (j Job) key() Key { return Key{j.Kind, client.ObjectKeyFromObject(j.Object)} }

// hasBegun reports whether messages may have been taken already.
func (j Job) hasBegun() bool { return j.Status.Total != nil }

// tookSince returns when the job began to take messages; nil if it has taken none. After a crash, only atMost shows that the job may have
// taken some.
func (j Job) tookSince() *metav1.Time {
	if ptr.Deref(j.Status.Examined, 0) == 0 && ptr.Deref(j.Status.AtMost, 0) == 0 {
		return nil
	}
	return j.Status.StartTime
}
