package deadletterjob

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// Kind is a kind of objects that take messages out of dead-letter queues.
type Kind string

// The kinds.
const (
	Redrive Kind = "Redrive"
	Purge   Kind = "Purge"
)

// Key names an object of either kind.
type Key struct {
	Kind Kind
	client.ObjectKey
}

func (k Key) user() User {
	return User{Kind: string(k.Kind), ObjectKey: k.ObjectKey}
}

// Job is a Redrive or a Purge: what both have.
type Job struct {
	client.Object
	Kind                    Kind
	ConsumerQueue           string
	DryRun, Suspend, Cancel bool
	// RequestedBy and Reason are empty where the spec does not say.
	RequestedBy, Reason string
	Select              *v1alpha1.DeadLetterSelector
	// TTL is for how many seconds the object is kept after it has ended; nil for ever.
	TTL *int32
	// Status is a part of the object.
	Status *v1alpha1.TransferStatus
}

// Work is what a Redrive and a Purge do differently. A Work belongs to one reconciliation of one object, and changes its status.
type Work interface {
	Job() Job
	// SyncProgress takes over how the transfer fares that runs or has ended; the zero Task if there is none. It returns a Blocker if the object has
	// ended by that, or cannot go on; otherwise a transfer that has ended by itself is followed by another one.
	SyncProgress(task Task) *Blocker
	// ResolveDestination says where the messages of a queue go, if they go anywhere, and why they may not be taken.
	ResolveDestination(ctx context.Context, from Queue, move *Move) (*Blocker, error)
	// Config is the transfer. Its messages are judged by the selection, which may turn out to be wrong. It needs no Log, Queue, Total and
	// Settings.
	Config(move Move) (transfer.Config, *Blocker)
	// Settings are those of the transfer that may be changed while it runs.
	Settings() transfer.Settings
	// RecordIntent records what is about to be done. The status is written then, before the first message is taken.
	RecordIntent()
	// RunningCondition is the value of Ready while the transfer goes on.
	RunningCondition(progress transfer.Progress, move Move) conditions.Value
	// Summary says in a sentence what was done.
	Summary() string
	// CompletionEvent is an Event for the ConsumerQueue when all has ended; an empty reason if there is nothing to tell.
	CompletionEvent() (reason, note string)
}

// workOn returns the Work of an object of the kind.
func (k Kind) workOn(object client.Object, finder *Finder) Work {
	if k == Purge {
		return newPurgeWork(object)
	}
	return newRedriveWork(object, finder)
}

func ofRedrive(r *v1alpha1.Redrive) Job {
	return Job{
		Object: r, Kind: Redrive, ConsumerQueue: r.Spec.ConsumerQueueRef.Name, DryRun: r.Spec.DryRun,
		Suspend: r.Spec.Suspend, Cancel: r.Spec.Cancel, TTL: r.Spec.TTLSecondsAfterFinished, Status: &r.Status.TransferStatus,
		RequestedBy: r.Spec.RequestedBy, Reason: r.Spec.Reason, Select: r.Spec.Selector,
	}
}

func ofPurge(p *v1alpha1.Purge) Job {
	return Job{
		Object: p, Kind: Purge, ConsumerQueue: p.Spec.ConsumerQueueRef.Name, DryRun: p.Spec.DryRun,
		Suspend: p.Spec.Suspend, Cancel: p.Spec.Cancel, TTL: p.Spec.TTLSecondsAfterFinished, Status: &p.Status.TransferStatus,
		RequestedBy: p.Spec.RequestedBy, Reason: p.Spec.Reason, Select: p.Spec.Selector,
	}
}

// jobOf is what a Redrive or a Purge has in common with others.
func jobOf(object client.Object) Job {
	if purge, ok := object.(*v1alpha1.Purge); ok {
		return ofPurge(purge)
	}
	return ofRedrive(object.(*v1alpha1.Redrive))
}

// empty is an object of the kind.
func (k Kind) empty() client.Object {
	if k == Purge {
		return &v1alpha1.Purge{}
	}
	return &v1alpha1.Redrive{}
}

// list lists the objects of the kind, which must not be changed.
func (k Kind) list(ctx context.Context, reader client.Reader, only ...client.ListOption) ([]Job, error) {
	options := append([]client.ListOption{client.UnsafeDisableDeepCopy}, only...)
	var jobs []Job
	if k == Purge {
		purges := &v1alpha1.PurgeList{}
		if err := reader.List(ctx, purges, options...); err != nil {
			return nil, fmt.Errorf("list Purges: %w", err)
		}
		for i := range purges.Items {
			jobs = append(jobs, ofPurge(&purges.Items[i]))
		}
		return jobs, nil
	}
	redrives := &v1alpha1.RedriveList{}
	if err := reader.List(ctx, redrives, options...); err != nil {
		return nil, fmt.Errorf("list Redrives: %w", err)
	}
	for i := range redrives.Items {
		jobs = append(jobs, ofRedrive(&redrives.Items[i]))
	}
	return jobs, nil
}

func (j Job) key() Key { return Key{j.Kind, client.ObjectKeyFromObject(j.Object)} }

// hasBegun says whether messages may have been taken already.
func (j Job) hasBegun() bool { return j.Status.Total != nil }
