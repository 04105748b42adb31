// Package listing tells of dead-letter queues what ConsumerQueues tell: no broker is asked. The dead-letter API and kubectl warren list
// the same. It does no I/O.
package listing

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// List tells of the dead-letter queues of ConsumerQueues, in their order. Those without a dead-letter queue are left out.
func List(queues []messaging.ConsumerQueue) *v1alpha1.DeadLetterQueueList {
	list := &v1alpha1.DeadLetterQueueList{TypeMeta: v1alpha1.TypeOf(v1alpha1.KindDeadLetterQueueList), Items: []v1alpha1.DeadLetterQueue{}}
	for i := range queues {
		if queue, has := QueueOf(&queues[i]); has {
			list.Items = append(list.Items, queue)
		}
	}
	return list
}

// QueueOf tells what is known of the dead-letter queue of a ConsumerQueue; false if there is none.
func QueueOf(cq *messaging.ConsumerQueue) (v1alpha1.DeadLetterQueue, bool) {
	names, err := topology.DeadLettersOf(cq, vhost.RabbitMQ40) // names depend on no version
	if err != nil || names.Queue == "" {
		return v1alpha1.DeadLetterQueue{}, false
	}
	queue := v1alpha1.DeadLetterQueue{
		TypeMeta: v1alpha1.TypeOf(v1alpha1.KindDeadLetterQueue), Queue: names.Queue,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cq.Namespace, Name: cq.Name, UID: cq.UID, CreationTimestamp: cq.CreationTimestamp, Labels: cq.Labels,
		},
	}
	if counted := cq.Status.Messages; counted != nil && counted.DeadLettered != nil {
		queue.Messages, queue.AsOf = counted.DeadLettered, counted.AsOf.DeepCopy()
	}
	return queue, true
}
