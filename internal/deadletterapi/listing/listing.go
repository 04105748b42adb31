// Package listing describes dead-letter queues from ConsumerQueues, Redrives and Purges. The dead-letter API and kubectl warren
// share it. It does no I/O.
package listing

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// List returns the dead-letter queues of ConsumerQueues, in their order, with the messages that Redrives and Purges have yet to
// examine, move or delete. It leaves out ConsumerQueues without a dead-letter queue.
func List(queues []messaging.ConsumerQueue, redrives []messaging.Redrive, purges []messaging.Purge) *v1alpha1.DeadLetterQueueList {
	underWay := map[client.ObjectKey]int64{}
	for i := range redrives {
		job := &redrives[i]
		underWay[client.ObjectKey{Namespace: job.Namespace, Name: job.Spec.ConsumerQueueRef.Name}] += UnderWayByRedrive(job)
	}
	for i := range purges {
		job := &purges[i]
		underWay[client.ObjectKey{Namespace: job.Namespace, Name: job.Spec.ConsumerQueueRef.Name}] += UnderWayByPurge(job)
	}
	list := &v1alpha1.DeadLetterQueueList{TypeMeta: v1alpha1.TypeOf(v1alpha1.KindDeadLetterQueueList), Items: []v1alpha1.DeadLetterQueue{}}
	for i := range queues {
		queue, has := QueueOf(&queues[i])
		if !has {
			continue
		}
		queue.UnderWay = new(underWay[client.ObjectKeyFromObject(&queues[i])])
		list.Items = append(list.Items, queue)
	}
	return list
}

// UnderWayByRedrive returns how many messages a running Redrive has yet to examine or move, from its status. A Redrive whose maxMessages
// is below its total ends after maxMessages moves.
func UnderWayByRedrive(job *messaging.Redrive) int64 {
	status := job.Status
	if !takesMessages(status.JobStatus, job.Spec.DryRun, job.Spec.Suspend) {
		return 0
	}
	if limit := job.Spec.MaxMessages; limit != nil && int64(*limit) < *status.Total {
		return max(int64(*limit)-ptr.Deref(status.Moved, 0), 0)
	}
	return max(*status.Total-ptr.Deref(status.Examined, 0), 0)
}

// UnderWayByPurge returns how many messages a running Purge has yet to count, or to delete after the count, from its status.
func UnderWayByPurge(job *messaging.Purge) int64 {
	status := job.Status
	switch {
	case !takesMessages(status.JobStatus, job.Spec.DryRun, job.Spec.Suspend):
		return 0
	case status.Matched != nil:
		return max(*status.Matched-ptr.Deref(status.Deleted, 0), 0)
	}
	return max(*status.Total-ptr.Deref(status.Examined, 0), 0)
}

// takesMessages reports whether a job has counted its queue and removes messages from it. Other users of the queue cannot see
// these messages.
func takesMessages(status messaging.JobStatus, dryRun, suspend bool) bool {
	ready := meta.FindStatusCondition(status.Conditions, messaging.ConditionReady)
	return status.Total != nil && status.CompletionTime == nil && !dryRun && !suspend &&
		!meta.IsStatusConditionTrue(status.Conditions, messaging.ConditionStalled) &&
		ready != nil && ready.Reason != messaging.ReasonQueued
}

// labelsOf returns the labels of a ConsumerQueue, or none if they are too large.
func labelsOf(cq *messaging.ConsumerQueue) map[string]string {
	if text.AreLabelsSmall(cq.Labels) {
		return cq.Labels
	}
	return nil
}

// QueueOf returns the dead-letter queue of a ConsumerQueue, from its status; false if it has none.
func QueueOf(cq *messaging.ConsumerQueue) (v1alpha1.DeadLetterQueue, bool) {
	names, err := topology.QueueNamesOf(cq, vhost.RabbitMQ40) // names are the same on all versions
	if err != nil || names.Queue == "" {
		return v1alpha1.DeadLetterQueue{}, false
	}
	queue := v1alpha1.DeadLetterQueue{
		TypeMeta: v1alpha1.TypeOf(v1alpha1.KindDeadLetterQueue), Queue: names.Queue,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cq.Namespace, Name: cq.Name, UID: cq.UID, CreationTimestamp: cq.CreationTimestamp, Labels: labelsOf(cq),
		},
	}
	if counted := cq.Status.Messages; counted != nil && counted.DeadLettered != nil {
		queue.Messages, queue.AsOf = counted.DeadLettered, counted.AsOf.DeepCopy()
	}
	return queue, true
}
