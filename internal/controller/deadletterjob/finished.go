package deadletterjob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
)

// A job can come back without its status: a backup is restored, or a GitOps tool creates the job again after it expired. Two
// records outlive the status: an annotation of the job, and a list in the status of the ConsumerQueue.

// checkFinishedBefore returns the Blocker of a job that has finished before, or nil.
func (s *scope) checkFinishedBefore(ctx context.Context) (*Blocker, error) {
	if s.before.hasBegun() {
		return nil, nil
	}
	if at, found := s.before.GetAnnotations()[v1alpha1.CompletedAtAnnotation]; found {
		return completed(v1alpha1.ReasonAlreadyFinished,
			"Warren did nothing, because the annotation %s says that this %s finished at %.64q. To run it again, create it "+
				"under another name and without the annotation", v1alpha1.CompletedAtAnnotation, s.Kind, at), nil
	}
	cq, err := s.recordOf(ctx, s.before)
	if cq == nil || err != nil {
		return nil, err
	}
	own := finishedJob(s.before)
	at := slices.IndexFunc(cq.Status.FinishedJobs, own.isSameJob)
	if at < 0 || s.before.DryRun {
		return nil, nil
	}
	return completed(v1alpha1.ReasonAlreadyFinished,
		"Warren did nothing, because %s %q with the same spec finished at %s. To run it again, create it under another name",
		s.Kind, own.Name, cq.Status.FinishedJobs[at].CompletionTime.UTC().Format(time.RFC3339)), nil
}

// recordOf returns the ConsumerQueue of a job, whose status lists the finished jobs; nil if it does not exist.
func (r *Reconciler) recordOf(ctx context.Context, job Job) (*v1alpha1.ConsumerQueue, error) {
	cq := &v1alpha1.ConsumerQueue{}
	key := client.ObjectKey{Namespace: job.GetNamespace(), Name: job.ConsumerQueue}
	if err := r.Client.Get(ctx, key, cq); apierrors.IsNotFound(err) {
		r.Tasks.records.Forget(key)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get ConsumerQueue %q: %w", key.Name, err)
	}
	if r.Tasks.records.IsOlder(cq) {
		return nil, statuswriter.ErrStaleCache
	}
	return cq, nil
}

// recordCompletion writes both records of a finished job, the annotation last. A job with the annotation is not recorded again, because
// newer jobs may have replaced its entry in the status of the ConsumerQueue.
func (r *Reconciler) recordCompletion(ctx context.Context, job Job) error {
	if _, recorded := job.GetAnnotations()[v1alpha1.CompletedAtAnnotation]; recorded {
		return nil
	}
	if !job.DryRun {
		if err := r.recordInConsumerQueue(ctx, job); err != nil {
			return err
		}
	}
	return r.patchMetadata(ctx, job, func(object client.Object) {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.CompletedAtAnnotation] = job.Status.CompletionTime.UTC().Format(time.RFC3339)
		object.SetAnnotations(annotations)
	})
}

// recordInConsumerQueue adds a job to the list in the status of its ConsumerQueue.
func (r *Reconciler) recordInConsumerQueue(ctx context.Context, job Job) error {
	cq, err := r.recordOf(ctx, job)
	if cq == nil || err != nil {
		return err
	}
	if cq.Status.ObservedGeneration <= 0 { // the controller of ConsumerQueues writes the first status
		return statuswriter.ErrStaleCache
	}
	cq.Status.FinishedJobs = withFinished(cq.Status.FinishedJobs, finishedJob(job))
	if err := r.Tasks.records.Update(ctx, r.Client, cq); err != nil {
		return client.IgnoreNotFound(err)
	}
	return nil
}

// withFinished returns the list with the job as its newest entry. A job that is already listed keeps its times.
func withFinished(list []v1alpha1.FinishedJob, job finished) []v1alpha1.FinishedJob {
	if at := slices.IndexFunc(list, job.isSameJob); at >= 0 {
		job.StartTime, job.CompletionTime = list[at].StartTime, list[at].CompletionTime
	}
	list = append(slices.DeleteFunc(slices.Clone(list), job.isSameJob), v1alpha1.FinishedJob(job))
	return list[max(0, len(list)-v1alpha1.MaxFinishedJobs):]
}

// excludeFromBackup adds the label that excludes the job from backups by Velero. It never changes a value that exists.
func (r *Reconciler) excludeFromBackup(ctx context.Context, job Job) error {
	if _, decided := job.GetLabels()[v1alpha1.ExcludeFromBackupLabel]; decided {
		return nil
	}
	return r.patchMetadata(ctx, job, func(object client.Object) {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.ExcludeFromBackupLabel] = "true"
		object.SetLabels(labels)
	})
}

// patchMetadata changes labels or annotations of a job. It returns a conflict if the job is not the newest version: a new job may
// have the same name.
func (r *Reconciler) patchMetadata(ctx context.Context, job Job, change func(client.Object)) error {
	before := job.DeepCopyObject().(client.Object)
	change(job.Object)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, job.Object, patch, statuswriter.FieldOwner); err != nil {
		return err
	}
	r.Tasks.statuses[r.Kind].Record(job.Object)
	return nil
}

// finished is an entry of status.finishedJobs.
type finished v1alpha1.FinishedJob

func finishedJob(job Job) finished {
	entry := finished{Kind: string(job.Kind), Name: job.GetName(), SpecHash: specHash(job.Object), StartTime: job.tookSince()}
	if job.Status.CompletionTime != nil {
		entry.CompletionTime = *job.Status.CompletionTime
	}
	return entry
}

func (f finished) isSameJob(other v1alpha1.FinishedJob) bool {
	return f.Kind == other.Kind && f.Name == other.Name && f.SpecHash == other.SpecHash
}

// specHash returns a hash of the spec without the fields that can be changed and without requestedBy.
func specHash(object client.Object) string {
	var spec any
	switch object := object.(type) {
	case *v1alpha1.Purge:
		purge := object.Spec
		purge.Rate, purge.Suspend, purge.Cancel, purge.TTLSecondsAfterFinished, purge.RequestedBy = nil, false, false, nil, ""
		spec = purge
	case *v1alpha1.Redrive:
		redrive := object.Spec
		redrive.Rate, redrive.Suspend, redrive.Cancel, redrive.TTLSecondsAfterFinished, redrive.RequestedBy = nil, false, false, nil, ""
		spec = redrive
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // the API server encoded the same types
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
