package consumerqueue

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
)

// updateMessages has the status tell how many messages the queues hold, if the status is written anyway, or tells something too
// different. While the broker cannot be asked, or its count is not known, the status keeps the numbers that it has.
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

// countedMessages is how many messages the queues in a status hold, by the last count of a broker; nil if messages are never counted,
// or none of the queues is there. It is not known before the first count, nor at another cluster or vhost than that of the status. If a
// queue did not answer, the numbers stay what they were, but dead letters that became stuck meanwhile count: a dead-letter queue without
// quorum does not answer either.
func countedMessages(status *v1alpha1.ConsumerQueueStatus, broker *brokers.Broker) (counted *v1alpha1.MessageCounts, known bool) {
	messages := broker.Messages(queueNames(status.Topology))
	if messages.Disabled {
		return nil, true
	}
	if messages.AsOf.IsZero() || !isRecordedAt(status, broker) {
		return nil, false
	}
	stuck := stuckDeadLetters(messages)
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

// stuckDeadLetters adds up the dead letters of all counted queues that wait to be routed.
func stuckDeadLetters(messages rabbit.Messages) (stuck int64) {
	for _, count := range messages.Stuck {
		stuck += count
	}
	return stuck
}

// queueNames are the names of the queues of a topology.
func queueNames(entries []v1alpha1.TopologyEntry) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Kind == v1alpha1.KindQueue {
			names = append(names, entry.Name)
		}
	}
	return names
}

// messagesByRole adds up the messages of a topology's queues. It leaves out roles of which no queue is there, or one did not answer.
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

// isOutdated says whether the numbers that a status tells are to be replaced by those that were counted, and not only when something
// else changes. That time has passed since is no reason.
func isOutdated(told, counted *v1alpha1.MessageCounts) bool {
	if told == nil || counted == nil {
		return told != counted
	}
	return differsInMagnitude(told.Main, counted.Main) || differsInMagnitude(told.Delayed, counted.Delayed) ||
		differsInMagnitude(told.DeadLettered, counted.DeadLettered) || differsInMagnitude(told.Stuck, counted.Stuck)
}

// differsInMagnitude says whether a number became zero or is zero no more, grew by a digit, or lost a digit and is less than half of
// the smallest number that has as many digits as before: one that goes to and fro between 9 and 10 stays as it was told.
func differsInMagnitude(told, counted *int64) bool {
	if told == nil || counted == nil {
		return told != counted
	}
	was, is := magnitude(*told), magnitude(*counted)
	return (was == 0) != (is == 0) || is > was || is < was && *counted < was/2
}

// magnitude is the largest power of ten that is not above a number; zero for zero.
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

// messageCountHandler has those ConsumerQueues reconciled whose status is to be written because of a count, after all that is more
// urgent.
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

// isRecordedAt says whether the topology in a status is that of the broker's vhost.
func isRecordedAt(status *v1alpha1.ConsumerQueueStatus, broker *brokers.Broker) bool {
	here := ownership.Location{Cluster: broker.Health().Cluster, VHost: broker.VHost()}
	return here.IsIn(ownership.Recorded(status.Location))
}

// queuesWithOutdatedCounts are the ConsumerQueues of a BrokerConnection whose status is outdated by the last count. It asks neither
// the broker nor the API server, and takes milliseconds for thousands of ConsumerQueues.
func (r *Reconciler) queuesWithOutdatedCounts(ctx context.Context, bc *v1alpha1.BrokerConnection) []reconcile.Request {
	broker := r.pool.Get(client.ObjectKeyFromObject(bc))
	if broker == nil || !broker.Health().Usable() {
		return nil // when it is again, all are reconciled
	}
	list := &v1alpha1.ConsumerQueueList{}
	err := r.client.List(ctx, list, client.InNamespace(bc.Namespace),
		client.MatchingFields{brokers.IndexConnection: bc.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "List ConsumerQueues", "brokerConnection", client.ObjectKeyFromObject(bc))
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		cq := &list.Items[i]
		if cq.Spec.Suspend || !cq.DeletionTimestamp.IsZero() {
			continue
		}
		counted, known := countedMessages(&cq.Status, broker)
		if hasOutdatedConsumers(&cq.Status, broker) || known && isOutdated(cq.Status.Messages, counted) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cq)})
		}
	}
	return requests
}
