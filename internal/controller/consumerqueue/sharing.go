package consumerqueue

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
)

// sharedDeadLetterQueue returns an advisory if other ConsumerQueues have the same dead-letter queue. It does not name them, so that the
// status need not be written when one of several leaves.
func (v *vhostScope) sharedDeadLetterQueue() []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range v.desired.Queues {
		if queue.Role != v1alpha1.RoleDeadLetter || !v.peers.Shares(queue.Name) {
			continue
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisorySharedDeadLetterQueue, Name: queue.Name,
			Message: fmt.Sprintf("other ConsumerQueues also use the dead-letter queue %q. A Redrive skips parked messages that lack the "+
				"header %s, because it cannot determine their ConsumerQueue. With spec.selector.unknownOrigin it moves these messages for "+
				"all ConsumerQueues. Set the header in the consumers, or give each ConsumerQueue its own dead-letter queue",
				queue.Name, consumercontract.HeaderFailureQueue),
		})
	}
	return advisories
}

// sharedWithoutConsent returns the advisories about objects that namespaces still share after consent was withdrawn. They do not
// name the other namespace.
func (v *vhostScope) sharedWithoutConsent() []v1alpha1.Advisory {
	unconsented := v.peers.Unconsented(v.candidate())
	advisories := make([]v1alpha1.Advisory, len(unconsented))
	for i, shared := range unconsented {
		message := fmt.Sprintf("%v belongs to a ConsumerQueue in another namespace that no longer shares it. This ConsumerQueue "+
			"keeps using it. Ask its owner to add namespace %q to %s, or choose another name", shared.ID, v.cq.Namespace, shared.Field)
		if shared.Holds {
			message = fmt.Sprintf("%v is used by a ConsumerQueue of another namespace that %s does not list. "+
				"Add the namespace, or ask its users to choose another name", shared.ID, shared.Field)
		}
		advisories[i] = v1alpha1.Advisory{Code: v1alpha1.AdvisorySharedWithoutConsent, Name: shared.ID.Name, Message: message}
	}
	return advisories
}

// redriveImpossible returns an advisory if the broker has refused a Redrive, a Purge or a browse.
func (v *vhostScope) redriveImpossible(ctx context.Context) ([]v1alpha1.Advisory, error) {
	refusal, err := deadletterjob.Refusal(ctx, v.client, v.key())
	if err != nil {
		return nil, err
	}
	var advisories []v1alpha1.Advisory
	for _, queue := range v.desired.Queues {
		if queue.Role != v1alpha1.RoleDeadLetter {
			continue
		}
		effect, refused := "moved or deleted", refusal
		if err := v.connection.RefusedBrowse(queue.Name); err != nil && refused == "" {
			effect, refused = "browsed, moved or deleted", conditions.ErrorSummary(err)
		}
		if refused != "" {
			advisories = append(advisories, v1alpha1.Advisory{
				Code: v1alpha1.AdvisoryRedriveImpossible, Name: queue.Name,
				Message: fmt.Sprintf("dead letters cannot be %s: %s. The user of BrokerConnection %q needs the permission read "+
					"on queue %q, and write on the exchange amq.default", effect, refused, v.cq.ConnectionName(), queue.Name),
			})
		}
	}
	return advisories, nil
}

// queueOfJob enqueues the ConsumerQueue of a Redrive or a Purge.
func queueOfJob() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: deadletterjob.ConsumerQueueOf(object)}}
	})
}
