package deadletterjob

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// IndexConsumerQueue indexes Redrives and Purges by the names of the ConsumerQueues that messages are taken from and moved to.
const IndexConsumerQueue = "consumerQueue"

// AddIndexes adds the indexes of Redrives and Purges.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	ofRedrives := indexer.IndexField(ctx, &v1alpha1.Redrive{}, IndexConsumerQueue, func(object client.Object) []string {
		spec := object.(*v1alpha1.Redrive).Spec
		names := []string{spec.ConsumerQueueRef.Name}
		if to := spec.Destination; to != nil && to.ConsumerQueueRef != nil && to.ConsumerQueueRef.Name != names[0] {
			names = append(names, to.ConsumerQueueRef.Name)
		}
		return names
	})
	ofPurges := indexer.IndexField(ctx, &v1alpha1.Purge{}, IndexConsumerQueue, func(object client.Object) []string {
		return []string{object.(*v1alpha1.Purge).Spec.ConsumerQueueRef.Name}
	})
	return errors.Join(ofRedrives, ofPurges)
}

// Refusal returns what the broker refuses to a running Redrive or Purge of a ConsumerQueue; empty if nothing. It reads the
// statuses of the jobs, so a restart loses nothing. A refusal ends when the job goes on or is deleted.
func Refusal(ctx context.Context, reader client.Reader, cq client.ObjectKey) (string, error) {
	only := []client.ListOption{
		client.InNamespace(cq.Namespace), client.MatchingFields{IndexConsumerQueue: cq.Name}, client.UnsafeDisableDeepCopy,
	}
	redrives, purges := &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}
	if err := errors.Join(reader.List(ctx, redrives, only...), reader.List(ctx, purges, only...)); err != nil {
		return "", fmt.Errorf("list Redrives and Purges: %w", err)
	}
	for i := range redrives.Items {
		if redrive := &redrives.Items[i]; redrive.Spec.ConsumerQueueRef.Name == cq.Name && isRefused(redrive.Status.TransferStatus) {
			return conditions.Ready(redrive.Status.Conditions).Message, nil
		}
	}
	for i := range purges.Items {
		if purge := &purges.Items[i]; isRefused(purge.Status.TransferStatus) {
			return conditions.Ready(purge.Status.Conditions).Message, nil
		}
	}
	return "", nil
}

// isRefused reports whether a job cannot go on because the broker refuses something.
func isRefused(status v1alpha1.TransferStatus) bool {
	ready := conditions.Ready(status.Conditions)
	return status.CompletionTime == nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonPermissionDenied
}

// RefusalChanged passes events that change the result of Refusal.
func RefusalChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isRefused(statusOf(e.Object)) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return isRefused(statusOf(e.ObjectOld)) != isRefused(statusOf(e.ObjectNew))
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return isRefused(statusOf(e.Object)) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func statusOf(object client.Object) v1alpha1.TransferStatus {
	if purge, isPurge := object.(*v1alpha1.Purge); isPurge {
		return purge.Status.TransferStatus
	}
	return object.(*v1alpha1.Redrive).Status.TransferStatus
}

// ConsumerQueueOf returns the ConsumerQueue of a Redrive or a Purge.
func ConsumerQueueOf(object client.Object) client.ObjectKey {
	key := client.ObjectKey{Namespace: object.GetNamespace()}
	if purge, isPurge := object.(*v1alpha1.Purge); isPurge {
		key.Name = purge.Spec.ConsumerQueueRef.Name
		return key
	}
	key.Name = object.(*v1alpha1.Redrive).Spec.ConsumerQueueRef.Name
	return key
}
