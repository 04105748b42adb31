package consumerqueue

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestDiffersInMagnitude(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		written, counted int64
		want             bool
	}{
		{0, 0, false},
		{0, 1, true},
		{1, 0, true},
		{1, 9, false},
		{9, 1, false},
		{9, 10, true},
		{10, 9, false},
		{10, 5, false},
		{10, 4, true},
		{99, 5, false},
		{99, 4, true},
		{10, 99, false},
		{99, 100, true},
		{100, 99, false},
		{999, 50, false},
		{999, 49, true},
		{100, 1, true},
		{100, 0, true},
		{0, 5_000_000_000, true},
		{5_000_000_000, 9_999_999_999, false},
		{5_000_000_000, 10_000_000_000, true},
	} {
		if got := differsInMagnitude(&test.written, &test.counted); got != test.want {
			t.Errorf("written %d, counted %d: %v, want %v", test.written, test.counted, got, test.want)
		}
	}
	one := int64(1)
	topologytest.Equal(t, "a new queue", true, differsInMagnitude(nil, &one))
	topologytest.Equal(t, "a deleted queue", true, differsInMagnitude(&one, nil))
	topologytest.Equal(t, "no such queue", false, differsInMagnitude(nil, nil))
}

// A change of any number outdates the status. The time of the count alone does not.
func TestIsOutdated(t *testing.T) {
	t.Parallel()
	of := func(main, delayed, deadLettered int64) *v1alpha1.MessageCounts {
		return &v1alpha1.MessageCounts{Main: &main, Delayed: &delayed, DeadLettered: &deadLettered, AsOf: metav1.Now()}
	}
	later := of(2, 2, 2)
	later.AsOf = metav1.NewTime(time.Now().Add(time.Hour))
	for name, test := range map[string]struct {
		written, counted *v1alpha1.MessageCounts
		want             bool
	}{
		"messages were never counted":             {},
		"messages are counted for the first time": {counted: of(0, 0, 0), want: true},
		"messages are not counted any more":       {written: of(0, 0, 0), want: true},
		"the same numbers":                        {written: of(2, 2, 2), counted: of(2, 2, 2)},
		"the same numbers, counted later":         {written: of(2, 2, 2), counted: later},
		"other numbers of the same magnitude":     {written: of(2, 2, 2), counted: of(3, 4, 5)},
		"the main queue has more":                 {written: of(2, 2, 2), counted: of(20, 2, 2), want: true},
		"the delay tiers have more":               {written: of(2, 2, 2), counted: of(2, 20, 2), want: true},
		"there are more dead letters":             {written: of(2, 2, 2), counted: of(2, 2, 20), want: true},
		"no dead letter is left":                  {written: of(2, 2, 2), counted: of(2, 2, 0), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "outdated", test.want, isOutdated(test.written, test.counted))
		})
	}
}

// numbers returns the message counts of a status, such as "main 3, delayed 0, dead 1"; empty if it has none.
func numbers(status v1alpha1.ConsumerQueueStatus) string {
	if status.Messages == nil {
		return ""
	}
	text := func(number *int64) string {
		if number == nil {
			return "-"
		}
		return fmt.Sprint(*number)
	}
	counts := status.Messages
	return fmt.Sprintf("main %s, delayed %s, dead %s", text(counts.Main), text(counts.Delayed), text(counts.DeadLettered))
}

// counted sets message counts, and reconciles the ConsumerQueue if they outdate its status. It reports whether the status was
// written.
func (w *world) counted(messages map[string]int) (written bool) {
	w.t.Helper()
	for queue, count := range messages {
		w.broker.SetMessages(queue, count)
	}
	w.broker.SetCountedAt(time.Now().Add(time.Hour))
	before := w.get().ResourceVersion
	requests := w.reconciler.queuesWithOutdatedCounts(w.t.Context(), controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}))
	for range requests {
		if _, err := w.reconcile(); err != nil {
			w.t.Fatal(err)
		}
	}
	written = w.get().ResourceVersion != before
	if written != (len(requests) > 0) {
		w.t.Errorf("%v enqueued, written %v: each count would enqueue it again", requests, written)
	}
	return written
}

// status.messages.stuck is set while dead letters are stuck.
func TestStuckDeadLettersInStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.broker.SetStuck("orders", 5)
	topologytest.Equal(t, "written", true, w.counted(map[string]int{"orders": 7}))
	topologytest.Equal(t, "stuck", new(int64(5)), w.get().Status.Messages.Stuck)
	w.broker.SetStuck("orders", 50)
	topologytest.Equal(t, "written while the dead-letter queue does not answer", true, w.counted(map[string]int{"dlq": -1}))
	topologytest.Equal(t, "stuck without a quorum", new(int64(50)), w.get().Status.Messages.Stuck)
	w.broker.SetStuck("orders", 0)
	topologytest.Equal(t, "written while the dead-letter queue still does not answer", false, w.counted(nil))
	topologytest.Equal(t, "written again", true, w.counted(map[string]int{"dlq": 0}))
	topologytest.Equal(t, "stuck at the end", (*int64)(nil), w.get().Status.Messages.Stuck)
}

// RabbitMQ counts stuck and delayed messages together. A policy decides, too, whether a queue delays returned messages.
func TestStuckDeadLettersOfQueuesThatDelay(t *testing.T) {
	t.Parallel()
	const delaying = `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 1m}}}`
	for name, test := range map[string]struct {
		spec   string
		policy vhost.Arguments
		stuck  bool
	}{
		"none delays":                      {`{retry: {policy: None}}`, nil, true},
		"the arguments delay":              {delaying, nil, false},
		"a policy disables the delay":      {delaying, vhost.Arguments{vhost.KeyDelayedRetryType: topology.DelayedRetryDisabled}, true},
		"a policy delays":                  {`{retry: {policy: None}}`, vhost.Arguments{vhost.KeyDelayedRetryType: "all", vhost.KeyDelayedRetryMin: int64(1000)}, false},
		"a policy that concerns no delays": {`{retry: {policy: None}}`, vhost.Arguments{vhost.KeyMaxLength: int64(1000)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.ConsumerQueue(t, test.spec))
			w.broker.Change(func(s *snapshot.Snapshot) {
				s.Policies = []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern("^orders$"), Definition: test.policy}}
			})
			w.broker.SetStuck("orders", 5)
			w.broker.SetMessages("orders", 5)
			w.mustReconcile()
			messages := w.get().Status.Messages
			topologytest.Equal(t, "stuck", test.stuck, messages != nil && messages.Stuck != nil)
		})
	}
}

// The status is written when a number changes its magnitude, and for no other count.
func TestMessagesInStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	for _, step := range []struct {
		name     string
		messages map[string]int
		written  bool
		want     string
	}{
		{"nothing has changed since the ConsumerQueue became Ready", nil, false, "main 0, delayed 0, dead 0"},
		{"dead letters", map[string]int{"orders.dlq": 3}, true, "main 0, delayed 0, dead 3"},
		{"one more dead letter", map[string]int{"orders.dlq": 4}, false, "main 0, delayed 0, dead 3"},
		{"ten dead letters", map[string]int{"orders.dlq": 10}, true, "main 0, delayed 0, dead 10"},
		{"nine dead letters", map[string]int{"orders.dlq": 9}, false, "main 0, delayed 0, dead 10"},
		{"ten dead letters again", map[string]int{"orders.dlq": 10}, false, "main 0, delayed 0, dead 10"},
		{"the dead-letter queue is purged, other queues fill", map[string]int{
			"orders": 25, "orders.retry.30s": 4, "orders.retry.5m": 4, "orders.dlq": 0,
		}, true, "main 25, delayed 8, dead 0"},
		{"the delay tiers have ten messages together", map[string]int{"orders.retry.30m": 2}, true, "main 25, delayed 10, dead 0"},
		{"messages of another ConsumerQueue", map[string]int{"invoices": 1000}, false, "main 25, delayed 10, dead 0"},
		{"all queues are empty", map[string]int{"orders": 0, "orders.retry.30s": 0, "orders.retry.5m": 0, "orders.retry.30m": 0}, true, "main 0, delayed 0, dead 0"},
	} {
		if step.messages == nil {
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		topologytest.Equal(t, step.name+": written", step.written, w.counted(step.messages))
		topologytest.Equal(t, step.name, step.want, numbers(w.get().Status))
	}
}

// A status that is written for another reason gets the current numbers.
func TestMessagesAreWrittenWithOtherChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, twoQueues))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "dead letters: written", true, w.counted(map[string]int{"dlq": 3}))
	topologytest.Equal(t, "some more: written", false, w.counted(map[string]int{"dlq": 7}))
	before := w.get().Status.Messages.AsOf
	w.broker.SetCountedAt(before.Add(time.Minute))
	w.edit(controllertest.ConsumerQueue(t, `{driftPolicy: Report, retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`).Spec)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "numbers", "main 0, delayed -, dead 7", numbers(w.get().Status))
	topologytest.Equal(t, "as of", metav1.NewTime(before.Add(time.Minute)).Rfc3339Copy(), w.get().Status.Messages.AsOf)
	topologytest.Equal(t, "written where driftPolicy is Report", true, w.counted(map[string]int{"dlq": 70}))

	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "numbers without the queue", "main 0, delayed -, dead -", numbers(w.get().Status))
}

// While no count is known for the topology, the status keeps its numbers.
func TestUnknownMessageCountsChangeNoStatus(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"messages cannot be counted": func(w *world) { w.broker.SetCountedAt(time.Time{}) },
		"a queue does not answer":    func(w *world) { w.broker.SetMessages("orders.retry.5m", -1) },
		"the broker does not answer": func(w *world) {
			w.broker.SetHealth(func(h *rabbit.Health) { h.Err = brokererr.ErrUnreachable })
		},
		"another cluster answers that was not compared yet": func(w *world) {
			w.broker.SetHealth(func(h *rabbit.Health) { h.Cluster.Name, h.Cluster.Endpoint = "rabbit@other", "other:5672" })
		},
		"the ConsumerQueue is suspended": func(w *world) {
			w.edit(controllertest.ConsumerQueue(w.t, `{suspend: true}`).Spec)
			if _, err := w.reconcile(); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "dead letters: written", true, w.counted(map[string]int{"orders.dlq": 3}))
			before := w.get()
			w.broker.SetMessages("orders.dlq", 3000)
			change(w)
			requests := w.reconciler.queuesWithOutdatedCounts(t.Context(), controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}))
			topologytest.Equal(t, "enqueued", nil, requests)
			topologytest.Equal(t, "messages", before.Status.Messages, w.get().Status.Messages)
		})
	}
}

// After a restart, the status keeps its numbers and nothing is written. A manager that does not count removes the numbers.
func TestMessagesAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.counted(map[string]int{"orders.dlq": 3})
	before := w.get()
	w.restart()
	for _, at := range []time.Time{{}, time.Now().Add(2 * time.Hour)} {
		w.broker.SetCountedAt(at)
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		topologytest.Equal(t, "version", before.ResourceVersion, w.get().ResourceVersion)
	}
	w.broker.DisableCounts()
	w.restart()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "messages", "", numbers(w.get().Status))
	after := w.get().Status
	after.Messages = before.Status.Messages
	topologytest.Equal(t, "the rest of the status", before.Status, after)
}

// A message count changes no condition.
func TestMessageCountsChangeNoCondition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	before := w.get()
	topologytest.Equal(t, "written", true, w.counted(map[string]int{"orders": 1, "orders.dlq": 100_000}))
	after := w.get()
	topologytest.Equal(t, "conditions", before.Status.Conditions, after.Status.Conditions)
	topologytest.Equal(t, "observedGeneration", before.Status.ObservedGeneration, after.Status.ObservedGeneration)
	topologytest.Equal(t, "events", nil, w.recorder.occurred, comparingOccurrences)
}

// A message count enqueues only the ConsumerQueues of its BrokerConnection whose numbers changed, with the lowest priority.
func TestMessageCountHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"orders", "invoices"} {
		cq := controllertest.Named(t, "shop", name, `{}`)
		if err := w.api.Create(t.Context(), cq); err != nil {
			t.Fatal(err)
		}
		start(w, []client.Object{cq})
	}
	other := controllertest.Named(t, "shop", "other", `{connectionRef: {name: other}, queue: {name: orders}}`)
	if err := w.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.broker.SetMessages("orders.dlq", 3)

	want := reconcile.Request{NamespacedName: controllertest.Orders}
	counted := event.TypedGenericEvent[*v1alpha1.BrokerConnection]{Object: controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})}
	ranked := priorityqueue.New[reconcile.Request]("test")
	defer ranked.ShutDown()
	w.reconciler.messageCountHandler().Generic(t.Context(), counted, ranked)
	request, priority, _ := ranked.GetWithPriority()
	topologytest.Equal(t, "request", want, request)
	topologytest.Equal(t, "priority", handler.LowPriority, priority)
	topologytest.Equal(t, "further requests", 0, ranked.Len())

	plain := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer plain.ShutDown()
	w.reconciler.messageCountHandler().Generic(t.Context(), counted, plain)
	request, _ = plain.Get()
	topologytest.Equal(t, "request to a plain queue", want, request)
	topologytest.Equal(t, "further requests to a plain queue", 0, plain.Len())

	counted.Object.Name = "other" // it has no connection
	w.reconciler.messageCountHandler().Generic(t.Context(), counted, plain)
	topologytest.Equal(t, "requests for another connection", 0, plain.Len())
}

// BenchmarkMessageCount compares a count with the statuses of 10,000 ConsumerQueues with six objects each. None is written.
func BenchmarkMessageCount(b *testing.B) {
	w := newWorld(b, controllertest.ConsumerQueue(b, `{}`))
	if _, err := w.reconcile(); err != nil {
		b.Fatal(err)
	}
	cq := w.get()
	b.ReportAllocs()
	for b.Loop() {
		for range 10_000 {
			if counted, known := countedMessages(&cq.Status, &brokers.Broker{Probe: w.broker, Observer: w.broker, Changer: w.broker, Mover: w.broker}); !known || isOutdated(cq.Status.Messages, counted) {
				b.Fatal("to be written")
			}
		}
	}
}
