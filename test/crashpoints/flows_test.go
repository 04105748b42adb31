package crashpoints

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/traffic"
)

// flow is work of the manager whose writes are crash points.
type flow struct {
	name string
	// everyVersion: the flow runs on all versions of RabbitMQ, not only on the newest.
	everyVersion bool
	// prepare creates a ConsumerQueue and messages. Nothing is numbered yet.
	prepare func(w *world)
	// begin begins the work.
	begin func(w *world)
	// goOn is called again and again until the work is over. It may be nil.
	goOn func(w *world)
	// isOver reports whether the work is over, and what was seen.
	isOver func(w *world) (bool, any)
}

var flows = []flow{recreateWhenEmpty(), recreateTier(), migrate(), migratePaused(), abort(), deleteIfEmpty(), deleteSome(), redrive(), purge()}

const (
	// topologyOfQueue has a delay tier whose messages do not return during the test, and a TTL.
	topologyOfQueue = `
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed, order.paid]}]
retry: {delayTiers: [{delay: 10m, queueName: orders.retry}]}
queue: {messageTTL: %s}
`
	before, afterwards = "1h", "2h" // the TTL
)

var throughShop = traffic.Target{Exchange: "shop", RoutingKey: "order.placed"}

// recreateWhenEmpty recreates an empty queue. The publisher begins with the recreation, because the queue would not be empty before.
func recreateWhenEmpty() flow {
	const policy = "recreatePolicy: WhenEmpty"
	return flow{
		name: "recreate", everyVersion: true,
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before) + policy)
			w.untilReady()
			w.send("orders.retry", 5)
			w.send("orders.dlq", 5)
		},
		begin: func(w *world) { w.queue(fmt.Sprintf(topologyOfQueue, afterwards) + policy) },
		goOn: func(w *world) {
			cq, _ := w.orders()
			if len(w.publishers) == 0 && cq.Status.Recreation != nil && cq.Status.Recreation.Phase != v1alpha1.RecreationWaiting {
				w.publish(throughShop)
			}
		},
		isOver: isRecreated,
	}
}

// recreateTier recreates an empty delay tier, which has no hold queue.
func recreateTier() flow {
	const policy = "recreatePolicy: WhenEmpty"
	of := fmt.Sprintf(topologyOfQueue, before) + policy
	return flow{
		name: "recreate-tier",
		prepare: func(w *world) {
			w.queue(of)
			w.untilReady()
			w.send("orders", 5)
			w.publish(throughShop)
		},
		begin:  func(w *world) { w.queue(strings.Replace(of, "10m", "20m", 1)) },
		isOver: isRecreated,
	}
}

// migrate recreates a queue with messages.
func migrate() flow {
	const policy = "recreatePolicy: Migrate\nrecreation: {approval: Automatic}"
	return flow{
		name: "migrate", everyVersion: true,
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before) + policy)
			w.untilReady()
			w.send("orders", 300)
			w.send("orders.retry", 5)
			w.publish(throughShop)
		},
		begin:  func(w *world) { w.queue(fmt.Sprintf(topologyOfQueue, afterwards) + policy) },
		isOver: isRecreated,
	}
}

// migratePaused recreates a queue whose consumer pauses when the contract asks for it, and consumes again afterwards.
func migratePaused() flow {
	const policy = "contract: {configMap: orders-contract}\nrecreatePolicy: Migrate\nrecreation: {approval: Automatic}"
	return flow{
		name: "migrate-paused",
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before) + policy)
			w.untilReady()
			w.publish(throughShop)
			w.obeyContract()
		},
		begin: func(w *world) { w.queue(fmt.Sprintf(topologyOfQueue, afterwards) + policy) },
		goOn:  (*world).obeyContract,
		isOver: func(w *world) (bool, any) {
			isOver, seen := isRecreated(w)
			return isOver && w.consumer != nil, seen
		},
	}
}

// obeyContract starts or stops the consumer as the contract asks. Consumers of Warren's library read the contract every 30 s, which would
// take too long here.
func (w *world) obeyContract() {
	w.t.Helper()
	const name = "orders-contract"
	found := &corev1.ConfigMap{}
	w.get(name, found)
	document, err := contract.Parse([]byte(found.Data["contract.json"]))
	if err != nil {
		w.t.Fatal(err)
	}
	isPaused := document.Paused != nil && time.Now().Before(document.Paused.Until)
	switch {
	case isPaused:
		w.stopConsumer()
	case w.consumer == nil:
		w.consumer = traffic.ConsumeByContract(w.t, w.vhost, "orders", w.namespace+"/"+name)
	}
}

// abort aborts a recreation while the queue is being proven empty, before a delete is sent. The old queue stays.
func abort() flow {
	aborted := recreateWhenEmpty()
	begin := aborted.begin
	aborted.name, aborted.everyVersion = "recreate-abort", false
	aborted.begin = func(w *world) {
		w.gate.actAfter(Operation{"update consumerqueues/status Swapping", "orders"}, w.abort)
		begin(w)
	}
	aborted.isOver = func(w *world) (bool, any) {
		cq, _ := w.orders()
		recreation := cq.Status.Recreation
		return recreation != nil && recreation.LastResult != nil && recreation.LastResult.Reason == v1alpha1.BackOutAborted, cq.Status
	}
	return aborted
}

func isRecreated(w *world) (bool, any) {
	cq, _ := w.orders()
	recreation := cq.Status.Recreation
	return isReady(cq) && recreation != nil && recreation.LastResult != nil &&
		recreation.LastResult.Result == v1alpha1.RecreationCompleted, cq.Status
}

// deleteIfEmpty deletes empty queues. A publisher uses an exchange of the topology that another client's queue is bound to.
func deleteIfEmpty() flow {
	return flow{
		name: "delete", everyVersion: true,
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before))
			w.untilReady()
			w.vhost.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum"})
			w.vhost.Bind("shop", "audit", "audit", nil)
			w.publish(traffic.Target{Exchange: "shop", RoutingKey: "audit"})
		},
		begin:  func(w *world) { w.delete() },
		isOver: isDeleted,
	}
}

// deleteSome deletes a ConsumerQueue whose dead-letter queue holds messages, and gets more.
func deleteSome() flow {
	return flow{
		name: "delete-some", everyVersion: true,
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before))
			w.untilReady()
			w.send("orders.dlq", 5)
			w.publish(traffic.ToQueue("orders.dlq"))
		},
		begin:  func(w *world) { w.delete() },
		isOver: isDeleted,
	}
}

func isDeleted(w *world) (bool, any) {
	cq, exists := w.orders()
	return !exists, cq.Status
}

// redrive moves dead letters to the main queue.
func redrive() flow {
	return flow{
		name: "redrive",
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before))
			w.untilReady()
			w.send("orders.dlq", 200)
		},
		begin: func(w *world) {
			w.createJob(&v1alpha1.Redrive{ObjectMeta: w.meta("again")}, "{consumerQueueRef: {name: orders}, rate: Unlimited}")
		},
		isOver: func(w *world) (bool, any) {
			job := &v1alpha1.Redrive{}
			w.get("again", job)
			return isEnded(job.Status.Conditions), job.Status
		},
	}
}

// purge deletes every second dead letter. A Purge that is interrupted does not go on by itself, so the user creates another one.
func purge() flow {
	const spec = `{consumerQueueRef: {name: orders}, selector: {expression: "int(body) % 2 == 0"}, expectedAtMost: 100, rate: Unlimited}`
	create := func(w *world, name string) { w.createJob(&v1alpha1.Purge{ObjectMeta: w.meta(name)}, spec) }
	last := func(w *world) (job *v1alpha1.Purge, interrupted bool) {
		job = &v1alpha1.Purge{}
		if !w.get("second", job) {
			w.get("first", job)
		}
		ready := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionReady)
		return job, ready != nil && ready.Reason == v1alpha1.ReasonInterrupted
	}
	return flow{
		name: "purge",
		prepare: func(w *world) {
			w.queue(fmt.Sprintf(topologyOfQueue, before))
			w.untilReady()
			w.send("orders.dlq", 200)
		},
		begin: func(w *world) { create(w, "first") },
		goOn: func(w *world) {
			if job, interrupted := last(w); interrupted && job.Name == "first" {
				create(w, "second")
			}
		},
		isOver: func(w *world) (bool, any) {
			job, interrupted := last(w)
			return isEnded(job.Status.Conditions) && !interrupted, job.Status
		},
	}
}

// send publishes numbered messages to a queue. Each has the number as its body and an ID that begins with the name of the queue.
func (w *world) send(queue string, count int) {
	w.t.Helper()
	messages := make([]amqp.Publishing, count)
	for i := range messages {
		messages[i] = amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: fmt.Sprintf("%s-%03d", queue, i), Body: fmt.Append(nil, i),
		}
	}
	w.vhost.Send("", queue, messages...)
}

// abort aborts the recreation that is under way. A proxy calls it.
func (w *world) abort() {
	cq := &v1alpha1.ConsumerQueue{}
	err := w.kube.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "orders"}, cq)
	if err == nil {
		before := cq.DeepCopy()
		metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.AbortRecreationAnnotation, cq.Status.Recreation.ID)
		err = w.kube.Patch(w.t.Context(), cq, client.MergeFrom(before))
	}
	if err != nil {
		w.t.Errorf("abort the recreation: %v", err)
	}
}

func (w *world) delete() {
	w.t.Helper()
	if err := w.kube.Delete(w.t.Context(), &v1alpha1.ConsumerQueue{ObjectMeta: w.meta("orders")}); err != nil {
		w.t.Fatal(err)
	}
}

// createJob creates a Redrive or a Purge with a spec in YAML.
func (w *world) createJob(job client.Object, spec string) {
	w.t.Helper()
	var into any
	switch job := job.(type) {
	case *v1alpha1.Redrive:
		into = &job.Spec
	case *v1alpha1.Purge:
		into = &job.Spec
	}
	if err := yaml.UnmarshalStrict([]byte(spec), into); err != nil {
		w.t.Fatal(err)
	}
	w.create(job)
}

// isReady reports whether a ConsumerQueue matches its newest spec.
func isReady(cq *v1alpha1.ConsumerQueue) bool {
	ready := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.Reason == v1alpha1.ReasonInSync &&
		cq.Status.ObservedGeneration == cq.Generation
}

// isEnded reports whether a Redrive or a Purge has ended.
func isEnded(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) ||
		meta.IsStatusConditionTrue(conditions, "Stalled")
}
