package deadletterjob

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// indexConsumerQueue indexes Redrives and Purges by the names of their source and destination ConsumerQueues.
const indexConsumerQueue = "consumerQueue"

// AddIndexes adds the indexes of Redrives and Purges.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	ofRedrives := indexer.IndexField(ctx, &v1alpha1.Redrive{}, indexConsumerQueue, func(object client.Object) []string {
		spec := object.(*v1alpha1.Redrive).Spec
		names := []string{spec.ConsumerQueueRef.Name}
		if to := spec.Destination; to != nil && to.ConsumerQueueRef != nil && to.ConsumerQueueRef.Name != names[0] {
			names = append(names, to.ConsumerQueueRef.Name)
		}
		return names
	})
	ofPurges := indexer.IndexField(ctx, &v1alpha1.Purge{}, indexConsumerQueue, func(object client.Object) []string {
		return []string{object.(*v1alpha1.Purge).Spec.ConsumerQueueRef.Name}
	})
	return errors.Join(ofRedrives, ofPurges)
}

// Refusal returns why the broker refuses an unfinished Redrive or Purge of a ConsumerQueue; empty if it refuses none. It reads the statuses
// of the jobs, so a restart loses nothing. A refusal ends when the job continues or is deleted.
func Refusal(ctx context.Context, reader client.Reader, cq client.ObjectKey) (string, error) {
	jobs, err := listJobs(ctx, reader, client.InNamespace(cq.Namespace), client.MatchingFields{indexConsumerQueue: cq.Name})
	if err != nil {
		return "", err
	}
	refused := slices.DeleteFunc(jobs, func(job Job) bool { return job.ConsumerQueue != cq.Name || !isRefused(job) })
	if len(refused) == 0 {
		return "", nil
	}
	return conditions.Ready(slices.MinFunc(refused, compareTurns).Status.Conditions).Message, nil // the same one each time
}

// isRefused reports whether a job cannot continue because the user lacks a permission at the broker.
func isRefused(job Job) bool {
	ready := conditions.Ready(job.Status.Conditions)
	return job.Status.CompletionTime == nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonPermissionDenied
}

// RefusalChanged passes events that change the result of Refusal.
func RefusalChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isRefused(jobOf(e.Object)) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return isRefused(jobOf(e.ObjectOld)) != isRefused(jobOf(e.ObjectNew))
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return isRefused(jobOf(e.Object)) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ConsumerQueueOf returns the ConsumerQueue of a Redrive or a Purge.
func ConsumerQueueOf(object client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: object.GetNamespace(), Name: jobOf(object).ConsumerQueue}
}
