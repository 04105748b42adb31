package consumerqueue

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// updateMessages updates the message counts if the status is written anyway or its counts are outdated. The status keeps its counts while
// the connection is down or the messages have not been counted.
func (s *scope) updateMessages(bc *v1alpha1.BrokerConnection) {
	connection, _, usable := s.pool.Usable(bc)
	if !usable || connection.Health().Err != nil {
		return
	}
	counted, known := countedMessages(s.status, connection)
	if !known {
		return
	}
	written := !equality.Semantic.DeepEqual(s.cq.Status, *s.status)
	if written || isOutdated(s.status.Messages, counted) {
		s.status.Messages = counted
	}
}

// countedMessages returns the messages of a status at the last count; nil if messages are never counted or no queue exists. known is
// false before the first count and at another location.
//
// If a queue did not answer, the counts do not change. Only Stuck may grow, because a dead-letter queue without a quorum does not answer,
// and dead letters for it get stuck.
func countedMessages(status *v1alpha1.ConsumerQueueStatus, broker *brokers.Broker) (counted *v1alpha1.MessageCounts, known bool) {
	messages := broker.Messages(queueNames(status.Topology))
	if messages.Disabled {
		return nil, true
	}
	if messages.AsOf.IsZero() || !isRecordedAt(status, broker) {
		return nil, false
	}
	stuck := stuckDeadLetters(messages, broker)
	if len(messages.Uncounted) > 0 {
		counted = status.Messages.DeepCopy()
		if counted != nil && stuck > 0 && (counted.Stuck == nil || *counted.Stuck < stuck) {
			counted.Stuck = &stuck
		}
		return counted, counted != nil
	}
	byRole := messagesByRole(status.Topology, messages)
	if len(byRole) == 0 {
		return nil, true
	}
	counted = &v1alpha1.MessageCounts{AsOf: metav1.NewTime(messages.AsOf).Rfc3339Copy()}
	for role, number := range map[v1alpha1.Role]**int64{
		v1alpha1.RoleMain: &counted.Main, v1alpha1.RoleDelayTier: &counted.Delayed, v1alpha1.RoleDeadLetter: &counted.DeadLettered,
	} {
		if count, there := byRole[role]; there {
			*number = &count
		}
	}
	if stuck > 0 {
		counted.Stuck = &stuck
	}
	return counted, true
}

// stuckDeadLetters returns how many dead letters wait to be routed in all counted queues. It leaves out queues that delay returned
// messages, because RabbitMQ counts both together.
func stuckDeadLetters(messages rabbit.Messages, broker *brokers.Broker) (stuck int64) {
	if len(messages.Stuck) == 0 {
		return 0
	}
	observed, _ := broker.Observe(vhost.Selection{Queues: slices.Collect(maps.Keys(messages.Stuck))})
	for queue, count := range messages.Stuck {
		if !plan.MayDelayReturned(queue, observed.Queues[queue], observed.Policies) {
			stuck += count
		}
	}
	return stuck
}

func queueNames(entries []v1alpha1.TopologyEntry) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Kind == v1alpha1.KindQueue {
			names = append(names, entry.Name)
		}
	}
	return names
}

// messagesByRole returns the counts by role. It leaves out a role if none of its queues exists, or if one did not answer.
func messagesByRole(entries []v1alpha1.TopologyEntry, messages rabbit.Messages) map[v1alpha1.Role]int64 {
	byRole := map[v1alpha1.Role]int64{}
	for _, entry := range entries {
		if entry.Kind != v1alpha1.KindQueue {
			continue
		}
		if count, there := messages.Of[entry.Name]; there {
			byRole[entry.Role] += count
		}
	}
	for _, entry := range entries {
		if entry.Kind == v1alpha1.KindQueue && slices.Contains(messages.Uncounted, entry.Name) {
			delete(byRole, entry.Role)
		}
	}
	return byRole
}

// isOutdated reports whether the counts changed enough to justify a write of the status.
func isOutdated(written, counted *v1alpha1.MessageCounts) bool {
	if written == nil || counted == nil {
		return written != counted
	}
	return differsInMagnitude(written.Main, counted.Main) || differsInMagnitude(written.Delayed, counted.Delayed) ||
		differsInMagnitude(written.DeadLettered, counted.DeadLettered) || differsInMagnitude(written.Stuck, counted.Stuck)
}

// differsInMagnitude reports whether a number became zero, left zero, or gained or lost a digit. A lost digit counts only below half of the
// previous magnitude: a fall from 10 counts at 4, but not at 5. So a number that alternates between 9 and 10 causes no writes.
func differsInMagnitude(written, counted *int64) bool {
	if written == nil || counted == nil {
		return written != counted
	}
	was, is := magnitude(*written), magnitude(*counted)
	return (was == 0) != (is == 0) || is > was || is < was && *counted < was/2
}

// magnitude returns the largest power of ten up to a number; zero for zero.
func magnitude(number int64) int64 {
	if number <= 0 {
		return 0
	}
	power := int64(1)
	for number >= 10 {
		number, power = number/10, power*10
	}
	return power
}

// messageCountHandler enqueues, at low priority, the ConsumerQueues whose message counts are outdated.
func (r *Reconciler) messageCountHandler() handler.TypedEventHandler[*v1alpha1.BrokerConnection, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.TypedFuncs[*v1alpha1.BrokerConnection, reconcile.Request]{
		GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[*v1alpha1.BrokerConnection], q queue) {
			for _, request := range r.queuesWithOutdatedCounts(ctx, e.Object) {
				trigger.Enqueue(q, trigger.Resync, request)
			}
		},
	}
}

// isRecordedAt reports whether the topology of a status is in the vhost of the broker.
func isRecordedAt(status *v1alpha1.ConsumerQueueStatus, broker *brokers.Broker) bool {
	here := ownership.Location{Cluster: broker.Health().Cluster, VHost: broker.VHost()}
	return here.IsIn(ownership.Recorded(status.Location))
}

// queuesWithOutdatedCounts returns the ConsumerQueues of a BrokerConnection whose message counts are outdated. It makes no request to the
// broker or the API server, and takes milliseconds for thousands of ConsumerQueues.
func (r *Reconciler) queuesWithOutdatedCounts(ctx context.Context, bc *v1alpha1.BrokerConnection) []reconcile.Request {
	broker := r.pool.Get(client.ObjectKeyFromObject(bc))
	if broker == nil || !broker.Health().Usable() {
		return nil // the BrokerConnection enqueues all of them when it is usable again
	}
	return r.queuesOfConnection(ctx, bc, func(cq *v1alpha1.ConsumerQueue) bool {
		if cq.Spec.Suspend || !cq.DeletionTimestamp.IsZero() {
			return false
		}
		counted, known := countedMessages(&cq.Status, broker)
		return hasOutdatedConsumers(&cq.Status, broker) || known && isOutdated(cq.Status.Messages, counted)
	})
}
