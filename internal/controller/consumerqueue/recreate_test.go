package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

const (
	bound     = `bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}], deadLetter: {policy: Disabled}, retry: {policy: None}`
	whenEmpty = `{recreatePolicy: WhenEmpty, ` + bound + `}`
	migrate   = `{recreatePolicy: Migrate, ` + bound + `}`
)

// recreationWorld is a world whose ConsumerQueue is in sync, and then wants another TTL.
type recreationWorld struct {
	*world

	engine *memoryRecreator
	ended  chan struct{} // one value for each task that has ended
	// awaited is the task whose end awaitTask has received last.
	awaited *recreationTask
}

// newRecreationWorld has a ConsumerQueue in sync with a spec, and prepares the engine.
func newRecreationWorld(t *testing.T, spec string, prepare ...func(*recreationWorld)) *recreationWorld {
	t.Helper()
	w := &recreationWorld{world: newWorld(t, controllertest.NewConsumerQueue(t, spec))}
	w.engine = &memoryRecreator{broker: w.broker, stored: w.get, during: map[v1alpha1.RecreationPhase]func(context.Context) error{}}
	w.recreator = w.engine
	w.restart()
	w.mustReconcile()
	for _, change := range prepare {
		change(w)
	}
	w.recorder.occurred = nil
	return w
}

// restart makes a reconciler that remembers nothing, and recreates queues at the broker in memory.
func (w *recreationWorld) restart() {
	w.t.Helper()
	w.world.restart()
	w.ended = make(chan struct{}, 100)
	w.reconciler.recreations = newRecreationTasks(w.t.Context(), func(client.ObjectKey) { w.ended <- struct{}{} })
}

// wantTTL edits the spec.
func (w *recreationWorld) wantTTL(spec string) {
	w.t.Helper()
	edited := topologytest.ConsumerQueue(w.t, spec)
	edited.Spec.Queue = &v1alpha1.QueueSpec{}
	edited.Spec.Queue.MessageTTL = "5m"
	w.edit(edited.Spec)
}

// once reconciles once. A task may annotate the ConsumerQueue meanwhile.
func (w *recreationWorld) once() ctrl.Result {
	w.t.Helper()
	w.reconciler.index.Update(w.cached())
	result, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
	if err != nil && !apierrors.IsConflict(err) {
		w.t.Fatal(err)
	}
	return result
}

// awaitTask waits until a task has ended.
func (w *recreationWorld) awaitTask() {
	w.t.Helper()
	select {
	case <-w.ended:
		w.awaited, _ = w.task()
	case <-time.After(deadline.For(10 * time.Second)):
		w.t.Fatal("the task does not end")
	}
}

// task is the latest task, or nil if there was none.
func (w *recreationWorld) task() (task *recreationTask, runs bool) {
	w.reconciler.recreations.mu.Lock()
	defer w.reconciler.recreations.mu.Unlock()
	task = w.reconciler.recreations.of[controllertest.Orders]
	return task, task != nil && task.isRunning()
}

// age makes the last inspection older.
func (w *recreationWorld) age(by time.Duration) {
	w.t.Helper()
	task, _ := w.task()
	w.reconciler.recreations.mu.Lock()
	defer w.reconciler.recreations.mu.Unlock()
	task.ended, task.result.checked = task.ended.Add(-by), task.result.checked.Add(-by)
}

// settle reconciles until no task runs, and awaitTask has received the end of the last one.
func (w *recreationWorld) settle() {
	w.t.Helper()
	for range 30 {
		w.once()
		if task, runs := w.task(); len(w.ended) == 0 && !runs && (task == nil || task == w.awaited) {
			return
		}
		w.awaitTask()
	}
	w.t.Fatal("tasks begin again and again")
}

// reach reconciles until the recreation is in a phase.
func (w *recreationWorld) reach(phase v1alpha1.RecreationPhase) {
	w.t.Helper()
	for end := time.Now().Add(deadline.For(10 * time.Second)); time.Now().Before(end); w.once() {
		if recreation := w.get().Status.Recreation; recreation != nil && recreation.Phase == phase {
			return
		}
	}
	w.t.Fatalf("the recreation is never %s", phase)
}

// annotate gives the ConsumerQueue one annotation. A task may call it while the test reconciles.
func (w *recreationWorld) annotate(key, value string) {
	w.t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cq := w.get()
		cq.Annotations = map[string]string{key: value}
		return w.api.Update(w.t.Context(), cq)
	}); err != nil {
		w.t.Error(err)
	}
}

// conditionOf is status and reason of a condition.
func (w *recreationWorld) conditionOf(name string) string {
	w.t.Helper()
	for _, condition := range w.get().Status.Conditions {
		if condition.Type == name {
			return fmt.Sprintf("%s %s", condition.Status, condition.Reason)
		}
	}
	return ""
}

// loseStatus removes the status of the ConsumerQueue.
func (w *recreationWorld) loseStatus() {
	w.t.Helper()
	cq := w.get()
	cq.Status = v1alpha1.ConsumerQueueStatus{}
	if err := w.api.Status().Update(w.t.Context(), cq); err != nil {
		w.t.Fatal(err)
	}
}

func (w *recreationWorld) ttl() any {
	observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"orders"}})
	return observed.Queues["orders"].Arguments["x-message-ttl"]
}

func (w *recreationWorld) bindings() int {
	observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"orders"}})
	return len(observed.BindingsTo["orders"])
}

var allPhases = []string{"Diverting orders", "Emptying orders", "Swapping orders", "GivingBack after a delete orders"}

func TestAnEmptyQueueIsRecreated(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.wantTTL(whenEmpty)
	w.settle()
	topologytest.Equal(t, "phases", allPhases, w.engine.taken())
	topologytest.Equal(t, "TTL", any(int64(300_000)), w.ttl())
	topologytest.Equal(t, "bindings", 1, w.bindings())
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "RecreationRequired", "False InSync", w.conditionOf(v1alpha1.ConditionRecreationRequired))
	topologytest.Equal(t, "Events", []string{
		eventRecreationPlanned, eventRecreationStarted, eventQueueSwapped, eventRecreationFinished,
	}, reasonsOf(w.recorder.occurred))
	result := w.get().Status.Recreation
	topologytest.Equal(t, "result", v1alpha1.RecreationCompleted, result.LastResult.Result)
	topologytest.Equal(t, "phase", v1alpha1.RecreationPhase(""), result.Phase)
}

// A manager that was killed has to know what it had begun.
func TestTheStatusIsWrittenBeforeEachPhase(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.wantTTL(whenEmpty)
	type written struct {
		Phase    v1alpha1.RecreationPhase
		Sent     bool
		Bindings int
		MayStart bool
	}
	var found []written
	for _, phase := range []v1alpha1.RecreationPhase{
		v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying, v1alpha1.RecreationSwapping, v1alpha1.RecreationGivingBack,
	} {
		w.engine.during[phase] = func(context.Context) error {
			status := w.get().Status.Recreation
			found = append(found, written{status.Phase, status.DeleteSent, len(status.Bindings), status.ConsumersMayStart})
			return nil
		}
	}
	w.settle()
	topologytest.Equal(t, "written", []written{
		{v1alpha1.RecreationDiverting, false, 1, false},
		{v1alpha1.RecreationEmptying, false, 1, false},
		{v1alpha1.RecreationSwapping, false, 1, false},
		{v1alpha1.RecreationGivingBack, true, 1, true},
	}, found)
}

// A failed run of a phase counts too, and its progress is shown while it runs. Parallel tests would slow this test down so much that the
// second run begins before the test has seen the first one fail.
func TestTheStatusShowsHowManyMessagesAreMoved(t *testing.T) {
	w := newRecreationWorld(t, automatic, func(w *recreationWorld) { w.engine.seen.Ready = 12 })
	w.wantTTL(automatic)
	reported, goOn := make(chan struct{}, 1), make(chan error)
	w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error {
		reported <- struct{}{}
		return <-goOn
	}
	mustShow := func(when string, moved, remaining int64) {
		t.Helper()
		<-reported
		w.once()
		status := w.get().Status.Recreation
		topologytest.Equal(t, "moved "+when, moved, status.Moved)
		topologytest.Equal(t, "remaining "+when, remaining, status.Remaining)
	}
	w.reach(v1alpha1.RecreationEmptying)
	mustShow("in the first run", 5, 7)
	goOn <- brokererr.ErrTimeout // after 12 messages
	w.settle()
	w.age(soonWorkRetry)
	w.once()
	mustShow("in the second run", 17, 7)
	goOn <- nil
	w.settle()
	topologytest.Equal(t, "TTL", any(int64(300_000)), w.ttl())
}

// The old queue works, so Flux and Argo CD have nothing to wait for.
func TestAQueueThatWaitsToBeRecreatedIsReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec              string
		seen              recreate.QueueSeen
		check, lossy      error
		ready, required   string
		annotation, value string
	}{
		"WhenEmpty, a consumer": {
			spec: whenEmpty, seen: recreate.QueueSeen{Consumers: 1}, ready: "True RecreationPending", required: "True WaitingForConsumers",
		},
		"WhenEmpty, a message": {
			spec: whenEmpty, seen: recreate.QueueSeen{Ready: 1}, ready: "True RecreationPending", required: "True WaitingUntilEmpty",
		},
		"WhenEmpty, a consumer, and another binding that waits for the recreation": {
			spec: strings.Replace(whenEmpty, "[placed]", "[placed, paid]", 1), seen: recreate.QueueSeen{Consumers: 1},
			ready: "Unknown RecreationPending", required: "True WaitingForConsumers",
		},
		"WhenEmpty, the broker does not answer": {
			spec: whenEmpty, check: brokererr.ErrTimeout, ready: "True RecreationPending", required: "True RecreationPending",
		},
		"WhenEmpty, the broker refuses": {
			spec: whenEmpty, check: &recreate.Error{Reason: recreate.MissingPermission, Message: "no policymaker"},
			ready: "False RecreationBlocked", required: "True RecreationBlocked",
		},
		"WhenEmpty, a message that could be lost if it was moved": {
			spec: whenEmpty, seen: recreate.QueueSeen{Ready: 1}, lossy: &recreate.Error{Reason: recreate.LossyDeadLetters},
			ready: "True RecreationPending", required: "True WaitingUntilEmpty",
		},
		"WhenEmpty, a retry that is pending": {
			spec: whenEmpty, check: &recreate.Error{Reason: recreate.MessagesPending, Message: "a delay tier has a message"},
			ready: "True RecreationPending", required: "True RecreationPending",
		},
		"Migrate, a message that could be lost": {
			spec: automatic, seen: recreate.QueueSeen{Ready: 1}, lossy: &recreate.Error{Reason: recreate.LossyDeadLetters},
			ready: "False RecreationBlocked", required: "True RecreationBlocked",
		},
		"Migrate without an approval": {spec: migrate, ready: "False ApprovalNeeded", required: "True ApprovalNeeded"},
		"Migrate with an approval of something else": {
			spec: migrate, annotation: v1alpha1.ApproveRecreationAnnotation, value: "sha256:other",
			ready: "False ApprovalNeeded", required: "True ApprovalStale",
		},
		"Manual": {spec: `{` + bound + `}`, ready: "False RecreationRequired", required: "True RecreationRequired"},
		"Report": {spec: `{driftPolicy: Report, recreatePolicy: WhenEmpty, ` + bound + `}`, ready: "False RecreationRequired", required: "True RecreationRequired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, `{`+bound+`}`)
			w.engine.seen, w.engine.lossy = test.seen, test.lossy
			w.engine.during[v1alpha1.RecreationWaiting] = func(context.Context) error { return test.check }
			if test.annotation != "" {
				w.annotate(test.annotation, test.value)
			}
			w.wantTTL(test.spec)
			w.settle()
			topologytest.Equal(t, "Ready", test.ready, w.conditionOf(v1alpha1.ConditionReady))
			topologytest.Equal(t, "RecreationRequired", test.required, w.conditionOf(v1alpha1.ConditionRecreationRequired))
			topologytest.Equal(t, "phases", []string(nil), w.engine.taken())
			topologytest.Equal(t, "TTL", nil, w.ttl())
		})
	}
}

// A queue may be in use for days, and each check takes about eight requests to RabbitMQ.
func TestAQueueInUseIsCountedOftenAndCheckedRarely(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty, func(w *recreationWorld) { w.engine.seen.Consumers = 1 })
	w.wantTTL(whenEmpty)
	w.settle()
	topologytest.Equal(t, "checks at first", 1, w.engine.checks)
	for _, test := range []struct {
		passed           time.Duration
		consumers, ready int
		required         string
		checks           int
	}{
		{inspectionAge, 2, 7, "True WaitingForConsumers", 1},
		{inspectionAge, 0, 1, "True WaitingUntilEmpty", 1},
		{checkInterval, 1, 0, "True WaitingForConsumers", 2},
		{inspectionAge, 1, 1, "True WaitingForConsumers", 2},
	} {
		w.engine.set(func(m *memoryRecreator) { m.seen.Consumers, m.seen.Ready = test.consumers, test.ready })
		w.age(test.passed)
		w.settle()
		topologytest.Equal(t, "RecreationRequired", test.required, w.conditionOf(v1alpha1.ConditionRecreationRequired))
		topologytest.Equal(t, "checks", test.checks, w.engine.checks)
	}
	topologytest.Equal(t, "phases while it is in use", []string(nil), w.engine.taken())
	w.engine.set(func(m *memoryRecreator) { m.seen.Consumers, m.seen.Ready = 0, 0 })
	w.age(inspectionAge)
	w.settle()
	topologytest.Equal(t, "checked before it is recreated", true, w.engine.checks > 2)
	topologytest.Equal(t, "phases", allPhases, w.engine.taken())
}

// A queue that was only counted may have changed in other ways since it was checked.
func TestARecreationBeginsOnlyAfterACheck(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, automatic, func(w *recreationWorld) { w.engine.seen.Ready = 200_000 })
	w.wantTTL(automatic)
	w.settle()
	w.age(inspectionAge)
	w.settle()
	topologytest.Equal(t, "checks", 1, w.engine.checks)
	w.engine.set(func(m *memoryRecreator) {
		m.during[v1alpha1.RecreationWaiting] = func(context.Context) error {
			return &recreate.Error{Reason: recreate.MissingPermission, Message: "no policymaker"}
		}
	})
	w.wantTTL(strings.Replace(automatic, "Automatic", "Automatic, maxReadyMessages: 300000", 1))
	w.settle()
	topologytest.Equal(t, "phases before a check", []string(nil), w.engine.taken())
	w.age(inspectionAge)
	w.settle()
	topologytest.Equal(t, "after a check", "True RecreationBlocked", w.conditionOf(v1alpha1.ConditionRecreationRequired))
	topologytest.Equal(t, "phases", []string(nil), w.engine.taken())
}

func TestAnApprovedQueueIsMigrated(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, migrate)
	w.engine.seen.Ready = 812
	w.wantTTL(migrate)
	w.settle()
	topologytest.Equal(t, "phases before the approval", []string(nil), w.engine.taken())
	w.annotate(v1alpha1.ApproveRecreationAnnotation, w.get().Status.PlanHash)
	w.settle()
	topologytest.Equal(t, "phases", allPhases, w.engine.taken())
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
}

// A delay tier to which nothing is bound comes before the main queue, and has no hold queue.
func TestDelayTiersAreRecreatedFirst(t *testing.T) {
	t.Parallel()
	const spec = `{recreatePolicy: WhenEmpty, retry: {delayTiers: [{delay: %s, queueName: tier}]}, deadLetter: {policy: Disabled}}`
	w := newRecreationWorld(t, fmt.Sprintf(spec, "30s"))
	w.wantTTL(fmt.Sprintf(spec, "1m"))
	w.settle()
	topologytest.Equal(t, "phases", append([]string{
		"Diverting without hold tier", "Swapping without hold tier", "GivingBack without hold after a delete tier",
	}, allPhases...), w.engine.taken())
}

// The old main queue dead-letters to the former exchange until it is recreated, too.
func TestARecreatedQueueKeepsABindingThatLeftTheSpec(t *testing.T) {
	t.Parallel()
	const spec = `{recreatePolicy: WhenEmpty, retry: {policy: None}, deadLetter: {exchange: {name: %s}, queue: {name: dlq, maxLength: %d}}}`
	w := newRecreationWorld(t, fmt.Sprintf(spec, "dlx", 1000))
	sourcesOfDLQ := func() (sources []string) {
		observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"dlq"}})
		for _, binding := range observed.BindingsTo["dlq"] {
			sources = append(sources, binding.Source)
		}
		slices.Sort(sources)
		return sources
	}
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error {
		w.engine.set(func(m *memoryRecreator) { m.seen.Consumers = 1 }) // so the main queue has to wait
		return nil
	}
	w.edit(topologytest.ConsumerQueue(t, fmt.Sprintf(spec, "grave", 2000)).Spec)
	w.once() // declares the new exchange
	w.settle()
	topologytest.Equal(t, "phases", []string{
		"Diverting dlq", "Emptying dlq", "Swapping dlq", "GivingBack after a delete dlq",
	}, w.engine.taken())
	w.settle() // the first reconciliation after the recreation waits for a refresh
	topologytest.Equal(t, "bindings while the main queue waits", []string{"dlx", "grave"}, sourcesOfDLQ())
	w.engine.set(func(m *memoryRecreator) { m.seen.Consumers, m.during = 0, nil })
	w.reconciler.recreations.forget(controllertest.Orders) // the result of the last inspection
	w.settle()
	topologytest.Equal(t, "phases", allPhases, w.engine.taken())
	w.mustReconcile()
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "bindings at the end", []string{"grave"}, sourcesOfDLQ())
}

// A queue that cannot be shown to be empty within settleTimeout stays as it is.
func TestARecreationThatIsNotProvenGoesBack(t *testing.T) {
	t.Parallel()
	const (
		settings = `recreation: {settleTimeout: 10s}, recreatePolicy: WhenEmpty, `
		tier     = `{` + settings + `retry: {delayTiers: [{delay: %s, queueName: tier}]}, deadLetter: {policy: Disabled}}`
	)
	for name, test := range map[string]struct{ was, spec, queue string }{
		"a tier without hold": {fmt.Sprintf(tier, "30s"), fmt.Sprintf(tier, "1m"), "tier"},
		"a main queue":        {`{` + settings + bound + `}`, `{` + settings + `queue: {messageTTL: 5m}, ` + bound + `}`, "orders"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, test.was)
			w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error {
				cq := w.get()
				if emptied := cq.Status.Recreation.EmptiedTime; emptied != nil {
					cq.Status.Recreation.EmptiedTime = &metav1.Time{Time: emptied.Add(-time.Minute)}
					if err := w.api.Status().Update(t.Context(), cq); err != nil {
						return err
					}
				}
				return &recreate.Error{Reason: recreate.NotProven, Message: "no sentinel arrived"}
			}
			w.edit(topologytest.ConsumerQueue(t, test.spec).Spec)
			w.settle()
			status := w.get().Status.Recreation
			if status.LastResult == nil {
				t.Fatalf("the recreation is %s", status.Phase)
			}
			topologytest.Equal(t, "queue", test.queue, status.LastResult.Queue)
			topologytest.Equal(t, "reason", v1alpha1.BackOutNotProven, status.LastResult.Reason)
			topologytest.Equal(t, "message", "no sentinel arrived", status.LastResult.Message)
		})
	}
}

func TestNothingIsCorrectedWhileAQueueIsRecreated(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	release := make(chan struct{})
	w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error { <-release; return nil }
	w.wantTTL(whenEmpty)
	w.reach(v1alpha1.RecreationEmptying)
	w.once()
	topologytest.Equal(t, "bindings meanwhile", 0, w.bindings())
	topologytest.Equal(t, "Ready", "Unknown Recreating", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "RecreationRequired", "True Recreating", w.conditionOf(v1alpha1.ConditionRecreationRequired))
	close(release)
	w.settle()
	topologytest.Equal(t, "bindings afterwards", 1, w.bindings())
}

// An abort counts until the delete is sent, in each phase.
func TestARecreationGoesBack(t *testing.T) {
	t.Parallel()
	const (
		diverting, emptying, swapping = v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying, v1alpha1.RecreationSwapping
	)
	began := map[v1alpha1.RecreationPhase]int{diverting: 1, emptying: 2, swapping: 3} // of allPhases
	abort := func(w *recreationWorld) { w.annotate(v1alpha1.AbortRecreationAnnotation, w.get().Status.Recreation.ID) }
	asBefore := func(w *recreationWorld) { w.edit(topologytest.ConsumerQueue(w.t, whenEmpty).Spec) }
	manual := func(w *recreationWorld) { w.wantTTL(`{` + bound + `}`) }
	for name, test := range map[string]struct {
		during v1alpha1.RecreationPhase
		edit   func(w *recreationWorld)
		fails  error
		reason string
		ready  string
	}{
		"by the annotation in Diverting": {during: diverting, edit: abort, reason: v1alpha1.BackOutAborted, ready: "False RecreationAborted"},
		"by the annotation in Emptying":  {during: emptying, edit: abort, reason: v1alpha1.BackOutAborted, ready: "False RecreationAborted"},
		"by the annotation in Swapping":  {during: swapping, edit: abort, reason: v1alpha1.BackOutAborted, ready: "False RecreationAborted"},
		"by recreatePolicy":              {during: emptying, edit: manual, reason: v1alpha1.BackOutAborted, ready: "False RecreationRequired"},
		"by recreatePolicy in Swapping":  {during: swapping, edit: manual, reason: v1alpha1.BackOutAborted, ready: "False RecreationRequired"},
		"by a spec as before":            {during: emptying, edit: asBefore, reason: v1alpha1.BackOutAborted, ready: "True InSync"},
		"by a spec as before in Swapping": {
			during: swapping, edit: asBefore, reason: v1alpha1.BackOutAborted, ready: "True InSync",
		},
		"by the broker": {
			during: emptying, fails: &recreate.Error{Reason: recreate.AMQP10Message, Message: "a message has AMQP 1.0 sections"},
			reason: v1alpha1.BackOutRefused, ready: "True RecreationPending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			w.engine.during[test.during] = func(context.Context) error {
				if test.edit != nil {
					test.edit(w)
				}
				return test.fails
			}
			w.wantTTL(whenEmpty)
			w.settle()
			want := append(slices.Clone(allPhases[:began[test.during]]), "GivingBack orders")
			topologytest.Equal(t, "phases", want, w.engine.taken())
			topologytest.Equal(t, "TTL", nil, w.ttl())
			topologytest.Equal(t, "bindings", 1, w.bindings())
			status := w.get().Status.Recreation
			topologytest.Equal(t, "result", v1alpha1.RecreationBackedOut, status.LastResult.Result)
			topologytest.Equal(t, "reason", test.reason, status.LastResult.Reason)
			topologytest.Equal(t, "Ready", test.ready, w.conditionOf(v1alpha1.ConditionReady))
		})
	}
}

// The message of the condition advises to set publishersPastBindings to Accept.
func TestARecreationThatFailedTooOftenBeginsAgainAfterAnEdit(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, migrate)
	w.wantTTL(migrate)
	w.settle()
	cq := w.get()
	cq.Status.Recreation = &v1alpha1.RecreationStatus{
		Queue: "orders", NewArguments: cq.Status.Recreation.NewArguments, Attempts: 3, AttemptsGeneration: cq.Generation,
		ApprovedPlanHash: cq.Status.PlanHash, ApprovedGeneration: cq.Generation,
		LastResult: &v1alpha1.RecreationResult{
			ID: "old", Queue: "orders", Result: v1alpha1.RecreationBackedOut, Reason: v1alpha1.BackOutPublishersPastBindings,
			Time: metav1.Now(),
		},
	}
	if err := w.api.Status().Update(t.Context(), cq); err != nil {
		t.Fatal(err)
	}
	w.annotate(v1alpha1.ApproveRecreationAnnotation, cq.Status.PlanHash)
	w.settle()
	topologytest.Equal(t, "Ready before", "False RecreationBlocked", w.conditionOf(v1alpha1.ConditionReady))
	w.wantTTL(strings.Replace(migrate, "Migrate", "Migrate, recreation: {publishersPastBindings: Accept}", 1))
	w.settle()
	topologytest.Equal(t, "phases", allPhases, w.engine.taken())
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
}

// An edit or a restored backup can damage the status. Without its arguments, the queue would come back as a classic queue.
func TestARecreationWithADamagedStatusDoesNothing(t *testing.T) {
	t.Parallel()
	for field, damage := range map[string]func(*v1alpha1.RecreationStatus){
		"newArguments": func(r *v1alpha1.RecreationStatus) { r.NewArguments = "{" },
		"bindings":     func(r *v1alpha1.RecreationStatus) { r.Bindings[0].Arguments = "{" },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error { return brokererr.ErrTimeout }
			w.wantTTL(whenEmpty)
			w.reach(v1alpha1.RecreationEmptying)
			w.settle()
			cq := w.get()
			damage(cq.Status.Recreation)
			if err := w.api.Status().Update(t.Context(), cq); err != nil {
				t.Fatal(err)
			}
			w.engine.taken()
			w.restart()
			w.reconciler.index.Update(w.cached())
			_, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
			if err == nil || !strings.Contains(err.Error(), "status.recreation."+field) {
				t.Errorf("got %v", err)
			}
			topologytest.Equal(t, "phases", 0, len(w.engine.taken()))
		})
	}
}

// The API server refuses a longer text. Then not even the end of the recreation could be written, and a deletion would hang.
func TestTheReasonToBackOutFitsIntoTheStatus(t *testing.T) {
	t.Parallel()
	var refusals []error
	for range 5 {
		refusals = append(refusals, &recreate.Error{Reason: recreate.MissingPermission, Message: strings.Repeat("€", 300)})
	}
	for name, backOut := range map[string]func() *recreationWorld{
		"by the broker": func() *recreationWorld {
			w := newRecreationWorld(t, whenEmpty)
			w.engine.during[v1alpha1.RecreationDiverting] = func(context.Context) error { return errors.Join(refusals...) }
			w.wantTTL(whenEmpty)
			w.settle()
			return w
		},
		"after a pause": func() *recreationWorld {
			w := newPausableWorld(t)
			w.pause()
			w.engine.during[v1alpha1.RecreationWaiting] = func(context.Context) error { return errors.Join(refusals...) }
			w.restart()
			w.settle()
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			message := backOut().get().Status.Recreation.LastResult.Message
			if len(message) > 1024 || len(message) < 1000 || !utf8.ValidString(message) {
				t.Errorf("the message has %d bytes: %s", len(message), message)
			}
		})
	}
}

// The connection is cut right after a message that came past the bindings was moved. The next attempt would find none.
func TestMessagesPastTheBindingsCountIfTheSwapFails(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.swapped = recreate.Swapped{Moved: 1, Past: 1}
	w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error { return brokererr.ErrUnreachable }
	w.wantTTL(whenEmpty)
	w.settle()
	topologytest.Equal(t, "phases", []string{"Diverting orders", "Emptying orders", "Swapping orders", "GivingBack orders"}, w.engine.taken())
	topologytest.Equal(t, "reason", v1alpha1.BackOutPublishersPastBindings, w.get().Status.Recreation.LastResult.Reason)
}

// After the delete was sent, an abort has no effect: Warren declares the new queue.
func TestARecreationGoesForwardAfterItsDelete(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error {
		w.annotate(v1alpha1.AbortRecreationAnnotation, w.get().Status.Recreation.ID)
		return nil
	}
	w.wantTTL(whenEmpty)
	w.settle()
	topologytest.Equal(t, "TTL", any(int64(300_000)), w.ttl())
	topologytest.Equal(t, "result", v1alpha1.RecreationCompleted, w.get().Status.Recreation.LastResult.Result)
}

// If a delete is uncertain, the engine repeats it, because the status records that a delete was sent.
func TestAnUncertainDeleteIsKeptInTheStatus(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.swapped = recreate.Swapped{DeleteSent: true}
	w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error {
		return &recreate.Error{Reason: recreate.DeleteUncertain, Message: "no answer"}
	}
	w.wantTTL(whenEmpty)
	w.settle()
	status := w.get().Status.Recreation
	topologytest.Equal(t, "phase", v1alpha1.RecreationSwapping, status.Phase)
	topologytest.Equal(t, "delete sent", true, status.DeleteSent)
	topologytest.Equal(t, "message", `Warren proves queue "orders" empty, deletes it and declares it again: no answer`,
		conditions.Ready(w.get().Status.Conditions).Message)
	w.engine.taken()
	w.engine.set(func(m *memoryRecreator) { delete(m.during, v1alpha1.RecreationSwapping) })
	w.restart()
	w.settle()
	topologytest.Equal(t, "phases", []string{"Swapping after a delete orders", "GivingBack after a delete orders"}, w.engine.taken())
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
}

// The queue may already be the new one, so the recreation must not count as backed out.
func TestAnAbortWaitsForAnUncertainDelete(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.swapped = recreate.Swapped{DeleteSent: true}
	w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error {
		return &recreate.Error{Reason: recreate.DeleteUncertain, Message: "no answer"}
	}
	w.wantTTL(whenEmpty)
	w.settle()
	w.annotate(v1alpha1.AbortRecreationAnnotation, w.get().Status.Recreation.ID)
	w.age(soonWorkRetry)
	w.settle()
	status := w.get().Status.Recreation
	topologytest.Equal(t, "phases", append(slices.Clone(allPhases[:3]), "Swapping after a delete orders"), w.engine.taken())
	topologytest.Equal(t, "phase", v1alpha1.RecreationSwapping, status.Phase)
	topologytest.Equal(t, "delete sent", true, status.DeleteSent)
	topologytest.Equal(t, "reason to back out", "", status.BackOutReason)
}

// A manager that lost its lead and does not know it must not delete the queue.
func TestAnOlderManagerSendsNoDelete(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	release, reached := make(chan struct{}), make(chan struct{}, 2)
	w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error {
		reached <- struct{}{}
		<-release
		return nil
	}
	w.wantTTL(whenEmpty)
	for len(reached) == 0 {
		w.once()
	}
	older := w.reconciler.recreations
	w.restart()
	w.once()
	<-reached
	<-reached
	close(release)
	w.settle()
	older.mu.Lock()
	defer older.mu.Unlock()
	topologytest.Equal(t, "the older manager is told", true, errors.Is(older.of[controllertest.Orders].result.err, errOutdatedWork))
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
}

// spec.suspend stops a recreation between phases, but not while a fence stands.
func TestASuspendedRecreation(t *testing.T) {
	t.Parallel()
	for phase, want := range map[v1alpha1.RecreationPhase][]string{
		v1alpha1.RecreationEmptying: allPhases[:2], v1alpha1.RecreationSwapping: allPhases[:3],
	} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			suspend := func(suspended bool) {
				cq := w.get()
				cq.Spec.Suspend = suspended
				w.edit(cq.Spec)
			}
			w.engine.during[phase] = func(context.Context) error { suspend(true); return nil }
			w.wantTTL(whenEmpty)
			w.settle()
			w.settle()
			calls := w.engine.taken()
			topologytest.Equal(t, "phases", want, calls)
			topologytest.Equal(t, "slots", 0, len(w.reconciler.recreations.slots))
			suspend(false)
			w.engine.set(func(m *memoryRecreator) { delete(m.during, phase) })
			w.settle()
			topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
		})
	}
}

// The phase that runs when spec.suspend is set still writes to the broker.
func TestTheMessageOfASuspendedRecreation(t *testing.T) {
	t.Parallel()
	const suspended = "spec.suspend is true: Warren neither reads nor changes the objects of this resource"
	w := newRecreationWorld(t, whenEmpty)
	release := make(chan struct{})
	w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error { <-release; return nil }
	w.wantTTL(whenEmpty)
	w.reach(v1alpha1.RecreationEmptying)
	cq := w.get()
	cq.Spec.Suspend = true
	w.edit(cq.Spec)
	w.once()
	topologytest.Equal(t, "while a phase runs", suspended+", once the phase Emptying of its recreation has ended",
		w.messageOf(v1alpha1.ConditionSuspended))
	close(release)
	w.settle()
	topologytest.Equal(t, "after the phase", suspended, w.messageOf(v1alpha1.ConditionSuspended))
}

// messageOf returns the message of a condition.
func (w *recreationWorld) messageOf(name string) string {
	w.t.Helper()
	found := meta.FindStatusCondition(w.get().Status.Conditions, name)
	if found == nil {
		w.t.Fatalf("there is no condition %s", name)
	}
	return found.Message
}

func TestARecreationOfATierThatLeavesTheSpecGoesBack(t *testing.T) {
	t.Parallel()
	const spec = `{recreatePolicy: WhenEmpty, retry: {delayTiers: [{delay: %s, queueName: tier}]}, deadLetter: {policy: Disabled}}`
	w := newRecreationWorld(t, fmt.Sprintf(spec, "30s"))
	w.engine.during[v1alpha1.RecreationDiverting] = func(context.Context) error {
		w.edit(topologytest.ConsumerQueue(w.t, `{recreatePolicy: WhenEmpty, retry: {policy: None}, deadLetter: {policy: Disabled}}`).Spec)
		return nil
	}
	w.edit(topologytest.ConsumerQueue(t, fmt.Sprintf(spec, "1m")).Spec)
	w.settle()
	topologytest.Equal(t, "message", `queue "tier" is no longer in the spec`, w.get().Status.Recreation.LastResult.Message)
}

// A ConsumerQueue that is deleted meanwhile leaves no hold queue.
func TestADeletionWaitsForTheRecreation(t *testing.T) {
	t.Parallel()
	for phase, began := range map[v1alpha1.RecreationPhase]int{v1alpha1.RecreationEmptying: 2, v1alpha1.RecreationSwapping: 3} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			w.engine.during[phase] = func(context.Context) error { return w.api.Delete(w.t.Context(), w.get()) }
			w.wantTTL(whenEmpty)
			exists := func() bool { return w.api.Get(t.Context(), controllertest.Orders, &v1alpha1.ConsumerQueue{}) == nil }
			for limit := time.Now().Add(deadline.For(10 * time.Second)); exists() && time.Now().Before(limit); {
				w.once()
			}
			topologytest.Equal(t, "phases", append(slices.Clone(allPhases[:began]), "GivingBack orders"), w.engine.taken())
		})
	}
}

// Only a new plan starts anew after a broker upgrade; an approval does.
func TestAnUpgradeOfTheBrokerStartsNothing(t *testing.T) {
	t.Parallel()
	const spec = `{recreatePolicy: WhenEmpty, retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	w := newRecreationWorld(t, spec, func(w *recreationWorld) {
		w.broker.Change(func(s *snapshot.Snapshot) {
			older := topologytest.Desired(w.t, spec, topologytest.V313)
			for _, queue := range older.Queues {
				s.DropQueue(queue.Name)
			}
			declare(s, older)
		})
	})
	w.settle()
	topologytest.Equal(t, "RecreationRequired", "True BrokerUpgraded", w.conditionOf(v1alpha1.ConditionRecreationRequired))
	topologytest.Equal(t, "phases", []string(nil), w.engine.taken())
	w.annotate(v1alpha1.ApproveRecreationAnnotation, w.get().Status.PlanHash)
	w.settle()
	topologytest.Equal(t, "RecreationRequired", "False InSync", w.conditionOf(v1alpha1.ConditionRecreationRequired))
}

func TestARecreationWhoseStatusWasLost(t *testing.T) {
	t.Parallel()
	const spec = `{recreatePolicy: WhenEmpty, retry: {delayTiers: [{delay: 30s, queueName: tier}]}, deadLetter: {queue: {name: dlq}}}`
	for _, queue := range []string{"orders", "dlq", "tier"} {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, spec)
			w.engine.hold, w.engine.seen.Exists = map[string][]string{queue: {"k3v9q2m7xa"}}, true
			w.loseStatus()
			w.restart()
			w.once()
			topologytest.Equal(t, "phase", v1alpha1.RecreationGivingBack, w.get().Status.Recreation.Phase)
			topologytest.Equal(t, "consumers may start", true, w.get().Status.Recreation.ConsumersMayStart)
			w.engine.set(func(m *memoryRecreator) { m.hold = nil })
			w.settle()
			topologytest.Equal(t, "phases", []string{"GivingBack after the loss of the status " + queue}, w.engine.taken())
			topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
		})
	}
}

// Otherwise the hold queue would stay bound and grow, and no Event would name it.
func TestADeletionFindsARecreationWhoseStatusWasLost(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.hold, w.engine.seen.Exists = map[string][]string{"orders": {"k3v9q2m7xa"}}, true
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error {
		w.engine.set(func(m *memoryRecreator) { m.hold = nil })
		return nil
	}
	w.loseStatus()
	if err := w.api.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	exists := func() bool { return w.api.Get(t.Context(), controllertest.Orders, &v1alpha1.ConsumerQueue{}) == nil }
	for limit := time.Now().Add(deadline.For(10 * time.Second)); exists() && time.Now().Before(limit); {
		w.once()
	}
	topologytest.Equal(t, "phases", []string{"GivingBack after the loss of the status orders"}, w.engine.taken())
	topologytest.Equal(t, "is gone", false, exists())
}

// A tenant can declare a hold queue for each of its ConsumerQueues, at a broker that answers slowly. Without slots, the inspections would
// occupy all workers.
func TestALostRecreationIsInspectedWithASlot(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w *recreationWorld){
		"of a ConsumerQueue": func(*recreationWorld) {},
		"of a deleted ConsumerQueue": func(w *recreationWorld) {
			if err := w.api.Delete(t.Context(), w.get()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			w.engine.hold, w.engine.seen.Exists = map[string][]string{"orders": {"k3v9q2m7xa"}}, true
			w.loseStatus()
			begin(w)
			w.restart()
			take := func() (release func(), ok bool) { // the only slot of the broker
				return w.reconciler.limiter.TryAcquire(w.broker.Health().Cluster.Endpoint, controllertest.Invoices)
			}
			inspections := 0
			w.engine.inspecting = func() {
				inspections++
				_, ok := take()
				topologytest.Equal(t, "a slot is free during the inspection", false, ok)
			}
			release, _ := take()
			w.once()
			topologytest.Equal(t, "inspections without a slot", 0, inspections)
			release()
			w.once()
			topologytest.Equal(t, "inspections with a slot", 1, inspections)
			topologytest.Equal(t, "phase", v1alpha1.RecreationGivingBack, w.get().Status.Recreation.Phase)
			_, ok := take()
			topologytest.Equal(t, "a slot is free after the inspection", true, ok)
		})
	}
}

// Another instance may keep its fence forever, so that nothing shows whether a delete is running.
func TestADeletionGivesUpALostRecreationThatItCannotCheck(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.hold, w.engine.seen.Exists, w.engine.fenced, w.engine.isNew = map[string][]string{"orders": {"k3v9q2m7xa"}}, true, true, true
	w.engine.deletes = brokererr.ErrShared
	w.loseStatus()
	if err := w.api.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	hold := vhost.PrefixHold + "k3v9q2m7xa.orders"
	w.once()
	topologytest.Equal(t, "Ready", fmt.Sprintf("waiting to delete the topology: a recreation must end first; hold queue %q: %v",
		hold, brokererr.ErrShared), conditions.Ready(w.get().Status.Conditions).Message)
	w.reconciler.unfinished = retrybudget.Failures{}
	failFor(&w.reconciler.unfinished, w.get(), 10*time.Minute)
	topologytest.Equal(t, "Events", []occurrence{{
		corev1.EventTypeWarning, eventRetained, "Delete", fmt.Sprintf(
			`retained queue "orders": not deleted within 10m: a recreation must end first; hold queue %q: %v`,
			hold, brokererr.ErrShared),
	}}, w.reconcileUntilGone(), comparingOccurrences)
	topologytest.Equal(t, "queues", []string{"orders"}, w.queueNames("orders"))
}

// The hold queue belongs to another ConsumerQueue, another instance, or a former ConsumerQueue of the same name.
func TestADeletionThatOwnsNothingRecoversNoRecreation(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"in Conflict": false, "in Conflict, with a lost status": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			newcomer := controllertest.Named(t, "shop", "newcomer", `{queue: {name: orders}, `+strings.TrimPrefix(whenEmpty, "{"))
			newcomer.UID, newcomer.Generation, newcomer.Finalizers = "newcomer", 1, []string{v1alpha1.TopologyFinalizer}
			if err := w.api.Create(t.Context(), newcomer); err != nil {
				t.Fatal(err)
			}
			key := client.ObjectKeyFromObject(newcomer)
			step := func() error {
				t.Helper()
				w.reconciler.index.Update(newcomer)
				if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
				return w.api.Get(t.Context(), key, newcomer)
			}
			if err := step(); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "Ready", v1alpha1.ReasonConflict, conditions.Ready(newcomer.Status.Conditions).Reason)
			if lose {
				newcomer.Status = v1alpha1.ConsumerQueueStatus{}
				if err := w.api.Status().Update(t.Context(), newcomer); err != nil {
					t.Fatal(err)
				}
			}
			w.engine.hold, w.engine.seen.Exists = map[string][]string{"orders": {recreate.NewID(key.String())}}, true
			if err := w.api.Delete(t.Context(), newcomer); err != nil {
				t.Fatal(err)
			}
			if err := w.api.Get(t.Context(), key, newcomer); err != nil {
				t.Fatal(err)
			}
			gone := false
			for range 10 {
				if gone = apierrors.IsNotFound(step()); gone || !lose {
					break
				}
			}
			topologytest.Equal(t, "released", true, gone)
			topologytest.Equal(t, "phases", []string(nil), w.engine.taken())
			topologytest.Equal(t, "queues", []string{"orders"}, w.queueNames("orders"))
		})
	}
}

// The queue behind the fence is as the spec asks. It is the old one if the spec asks for the old arguments again, and then its delete
// may be running.
func TestALostStatusWaitsForADelete(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.hold, w.engine.seen.Exists, w.engine.fenced, w.engine.isNew = map[string][]string{"orders": {"k3v9q2m7xa"}}, true, true, true
	w.engine.deletes = brokererr.ErrUnproven
	w.loseStatus()
	w.restart()
	w.reconciler.index.Update(w.cached())
	_, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
	topologytest.Equal(t, "waits", true, errors.Is(err, brokererr.ErrUnproven))
	topologytest.Equal(t, "recreation", nil, w.get().Status.Recreation)

	w.engine.set(func(m *memoryRecreator) { m.deletes = nil })
	w.once()
	topologytest.Equal(t, "phase", v1alpha1.RecreationGivingBack, w.get().Status.Recreation.Phase)
	w.engine.set(func(m *memoryRecreator) { m.hold = nil })
	w.settle()
	topologytest.Equal(t, "phases", []string{"GivingBack after the loss of the status orders"}, w.engine.taken())
}

// Another client has bound the hold queue. GiveBack reads the bindings of the hold queue, so the status does not need all of them.
func TestALostRecreationWithMoreBindingsThanTheStatusHolds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bindings, size int // the size is that of each binding's argument
		want           int
	}{
		"too many bindings":   {bindings: 65, size: 1, want: 64},
		"bindings as allowed": {bindings: 64, size: 500, want: 64},
		"too large bindings":  {bindings: 3, size: 30 << 10, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			w.engine.hold, w.engine.seen.Exists = map[string][]string{"orders": {"k3v9q2m7xa"}}, true
			for i := range test.bindings {
				w.engine.holdBindings = append(w.engine.holdBindings, vhost.Binding{
					Source: "shop", RoutingKey: fmt.Sprint(i), Arguments: vhost.Arguments{"a": strings.Repeat("x", test.size)},
				})
			}
			w.loseStatus()
			w.restart()
			w.once()
			topologytest.Equal(t, "recorded", test.want, len(w.get().Status.Recreation.Bindings))
		})
	}
}

// The owner of a recreation loses its status while another ConsumerQueue wants the same dead-letter queue.
func TestTheOwnerContinuesItsRecreationBesideANewcomer(t *testing.T) {
	t.Parallel()
	const spec = `{queue: {name: %s}, recreatePolicy: WhenEmpty, retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	w := newRecreationWorld(t, fmt.Sprintf(spec, "orders"))
	newcomer := controllertest.Named(t, "shop", "newcomer", fmt.Sprintf(spec, "newcomer"))
	newcomer.UID = "newcomer"
	if err := w.api.Create(t.Context(), newcomer); err != nil {
		t.Fatal(err)
	}
	w.reconciler.index.Update(newcomer)
	w.loseStatus()
	own := recreate.NewID(controllertest.Orders.String())
	others := []string{recreate.NewID("shop/newcomer"), "k3v9q2m7xa"}
	w.engine.hold, w.engine.seen.Exists = map[string][]string{"dlq": others}, true
	w.once()
	topologytest.Equal(t, "only recreations of others", false, w.get().Status.Recreation.IsUnderWay())
	w.loseStatus()
	w.engine.set(func(m *memoryRecreator) { m.hold["dlq"] = append(others, own) })
	w.once()
	found := w.get().Status.Recreation
	topologytest.Equal(t, "under way", true, found.IsUnderWay())
	topologytest.Equal(t, "its own", own, found.ID)
}

// A restarted manager backs the recreation out without a result of its own.
func TestConsumersMayStartAfterAnAbortAndARestart(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	for _, phase := range []v1alpha1.RecreationPhase{v1alpha1.RecreationEmptying, v1alpha1.RecreationGivingBack} {
		w.engine.during[phase] = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	}
	w.wantTTL(whenEmpty)
	w.reach(v1alpha1.RecreationEmptying)
	w.annotate(v1alpha1.AbortRecreationAnnotation, w.get().Status.Recreation.ID)
	w.restart()
	w.once()
	status := w.get().Status.Recreation
	topologytest.Equal(t, "phase", v1alpha1.RecreationGivingBack, status.Phase)
	topologytest.Equal(t, "consumers may start", true, status.ConsumersMayStart)
}

// Another ConsumerQueue with the same main queue or dead-letter queue must not interfere with a recreation that is under way.
func TestANewcomerDoesNotContinueTheRecreationOfAnother(t *testing.T) {
	t.Parallel()
	const spec = `{queue: {name: %s}, recreatePolicy: WhenEmpty, retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	for name, test := range map[string]struct{ main, recreated, ready string }{
		"the same main queue":        {"orders", "orders", v1alpha1.ReasonConflict},
		"the same dead-letter queue": {"newcomer", "dlq", v1alpha1.ReasonInSync},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, fmt.Sprintf(spec, "orders"))
			w.engine.hold, w.engine.seen.Exists = map[string][]string{test.recreated: {"k3v9q2m7xa"}}, true
			newcomer := controllertest.Named(t, "shop", "newcomer", fmt.Sprintf(spec, test.main))
			newcomer.UID = "newcomer"
			if err := w.api.Create(t.Context(), newcomer); err != nil {
				t.Fatal(err)
			}
			w.reconciler.index.Update(newcomer)
			if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(newcomer)}); err != nil {
				t.Fatal(err)
			}
			if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(newcomer), newcomer); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "Ready", test.ready, conditions.Ready(newcomer.Status.Conditions).Reason)
			topologytest.Equal(t, "phases", []string(nil), w.engine.taken())
		})
	}
}

// A manager that got the lease back does not know what its predecessor did meanwhile.
func TestTheResultOfAnOutdatedTaskIsIgnored(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	tasks := newRecreationTasks(t.Context(), func(client.ObjectKey) { close(ended) })
	status := v1alpha1.RecreationStatus{ID: "id", Phase: v1alpha1.RecreationSwapping, Runs: 3}
	tasks.begin(controllertest.Orders, status, func(context.Context, func(recreate.Progress)) phaseResult { return phaseResult{} })
	<-ended
	topologytest.Equal(t, "has a result", true, tasks.get(controllertest.Orders, status).hasResult())
	status.Runs++
	topologytest.Equal(t, "has a result for another manager's run", false, tasks.get(controllertest.Orders, status).hasResult())
}

// A recreation may wait for days, and counts consumers and messages every few seconds.
func TestTasksBeforeTheFormerOneAreForgotten(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	tasks := newRecreationTasks(t.Context(), func(client.ObjectKey) { ended <- struct{}{} })
	status := v1alpha1.RecreationStatus{ID: "id", Phase: v1alpha1.RecreationWaiting}
	var begun []weak.Pointer[recreationTask]
	for range 3 {
		tasks.begin(controllertest.Orders, status, func(context.Context, func(recreate.Progress)) phaseResult { return phaseResult{listed: 2} })
		<-ended
		begun = append(begun, weak.Make(tasks.of[controllertest.Orders]))
	}
	NewWithT(t).Eventually(func() bool {
		runtime.GC()
		return begun[0].Value() == nil
	}).WithTimeout(deadline.For(10 * time.Second)).Should(BeTrue())
	former := tasks.get(controllertest.Orders, status).former
	topologytest.Equal(t, "listed before", 2, former.listed)
}

// After a node was killed, a fence may be closed until work succeeds.
func TestHowSoonFailedWorkIsRepeated(t *testing.T) {
	t.Parallel()
	ended := time.Now()
	pending := &recreate.Error{Reason: recreate.MessagesPending}
	cases := map[string]struct {
		failures int
		err      error
		want     time.Duration
	}{
		"no failure":                        {failures: 0, want: 0},
		"one failure":                       {failures: 1, want: time.Second},
		"two failures":                      {failures: 2, want: 2 * time.Second},
		"three failures":                    {failures: 3, want: 4 * time.Second},
		"four failures":                     {failures: 4, want: 5 * time.Second},
		"20 failures":                       {failures: 20, want: 5 * time.Second},
		"21 failures":                       {failures: 21, want: 30 * time.Second},
		"a thousand failures":               {failures: 1000, want: 30 * time.Second},
		"one failure, messages pending":     {failures: 1, err: pending, want: time.Second},
		"five failures, messages pending":   {failures: 5, err: pending, want: 16 * time.Second},
		"twenty failures, messages pending": {failures: 20, err: pending, want: 30 * time.Second},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			task := recreationTask{id: "id", ended: ended, failures: test.failures, result: phaseResult{err: test.err}}
			topologytest.Equal(t, "pause", test.want, task.retryIn(ended))
		})
	}
}

// A dead letter that waits for room in the next queue is not ready, so Emptying has nothing to move.
func TestSwappingWaitsForPendingMessages(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.during[v1alpha1.RecreationSwapping] = func(context.Context) error {
		return &recreate.Error{Reason: recreate.MessagesPending, Message: "a dead letter waits"}
	}
	w.wantTTL(whenEmpty)
	w.settle()
	topologytest.Equal(t, "phases", allPhases[:3], w.engine.taken())
	w.engine.set(func(m *memoryRecreator) { delete(m.during, v1alpha1.RecreationSwapping) })
	w.age(firstWorkRetry)
	w.settle()
	topologytest.Equal(t, "phases afterwards", allPhases[2:], w.engine.taken())
}

// An annotation stays after its recreation. It must not approve the recreation of another queue of the next plan.
func TestAnApprovalOfAnotherPlanIsNotRecorded(t *testing.T) {
	t.Parallel()
	next := plan.Recreation{Queue: topology.Queue{Name: "orders", Role: v1alpha1.RoleMain}}
	for name, want := range map[string]string{"sha256:old": "", "sha256:new": "sha256:new"} {
		moment := plan.Moment{Approved: name, PlanHash: "sha256:new", Generation: 2}
		topologytest.Equal(t, "approved after "+name, want, begunStatus(next, moment, recreate.Seen{}).ApprovedPlanHash)
	}
}

// A commit can change the TTL of hundreds of queues, and each inspection takes about eight requests to RabbitMQ.
func TestAQueueWaitsForASlotWithoutInspections(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	here := recreationPlace{endpoint: "memory:5672", vhost: "/"}
	for i := range maxRecreations {
		topologytest.Equal(t, "has a slot", true, w.reconciler.recreations.reserve(client.ObjectKey{Name: fmt.Sprint(i)}, here, false))
	}
	w.wantTTL(whenEmpty)
	w.settle()
	want := `Warren recreates queue "orders" when another recreation ends`
	topologytest.Equal(t, "waits for a slot", true, strings.Contains(w.messageOf(v1alpha1.ConditionRecreationRequired), want))
	checks, version := w.engine.checks, w.get().ResourceVersion
	w.age(checkInterval)
	w.settle()
	topologytest.Equal(t, "checks", checks, w.engine.checks)
	topologytest.Equal(t, "resourceVersion", version, w.get().ResourceVersion)
	w.reconciler.recreations.release(client.ObjectKey{Name: "0"})
	w.settle()
	topologytest.Equal(t, "phases after another recreation has ended", allPhases, w.engine.taken())
}

// The status that would have begun the recreation could not be written, and now the queue has a consumer.
func TestAQueueThatWaitsForConsumersHasNoSlot(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.seen.Consumers = 1
	here := recreationPlace{endpoint: "memory:5672", vhost: "/"}
	w.reconciler.recreations.reserve(controllertest.Orders, here, false)
	w.wantTTL(whenEmpty)
	w.settle()
	topologytest.Equal(t, "taken slots", 0, w.reconciler.recreations.others(client.ObjectKey{}, here))
}

// Sixteen queues of a vhost are recreated at a time, so that a hundred do not open a hundred connections.
func TestSlotsOfRecreations(t *testing.T) {
	t.Parallel()
	tasks := newRecreationTasks(t.Context(), func(client.ObjectKey) {})
	key := func(i int) client.ObjectKey { return client.ObjectKey{Name: fmt.Sprint(i)} }
	here, other := recreationPlace{vhost: "v"}, recreationPlace{vhost: "other"}
	for i := range maxRecreations {
		topologytest.Equal(t, "has a slot", true, tasks.reserve(key(i), here, false))
	}
	topologytest.Equal(t, "one too many", false, tasks.reserve(key(99), here, false))
	topologytest.Equal(t, "again", true, tasks.reserve(key(3), here, false))
	topologytest.Equal(t, "another vhost", true, tasks.reserve(key(100), other, false))
	topologytest.Equal(t, "one under way", true, tasks.reserve(key(101), here, true))
	tasks.release(key(101))
	tasks.release(key(3))
	topologytest.Equal(t, "after another one", true, tasks.reserve(key(99), here, false))
}

// A tenant can claim to be at any address by a server that is chosen by name, so it occupies the slots of its own namespace only.
func TestSlotsOfRecreationsBetweenNamespaces(t *testing.T) {
	t.Parallel()
	at := func(namespace, address string) recreationPlace {
		cq := &v1alpha1.ConsumerQueue{}
		cq.Namespace = namespace
		broker := brokerstest.New(vhost.RabbitMQ43, "orders", "uid")
		broker.SetHealth(func(h *rabbit.Health) { h.Place.Address = address })
		return (&vhostScope{
			scope: &scope{report: report{cq: cq}}, connection: &brokers.Broker{Probe: broker},
			location: ownership.Location{Cluster: vhost.Cluster{Name: "a", Endpoint: "mq:5672"}, VHost: "orders"},
		}).place()
	}
	for name, test := range map[string]struct {
		one, other recreationPlace
		same       bool
	}{
		"two namespaces at a proven address":    {at("shop", "mq:5672"), at("till", "mq:5672"), true},
		"one namespace, with ServerName":        {at("shop", ""), at("shop", ""), true},
		"another namespace, with ServerName":    {at("shop", "mq:5672"), at("till", ""), false},
		"two namespaces, both with it":          {at("shop", ""), at("till", ""), false},
		"one namespace at two proven addresses": {at("shop", "mq:5672"), at("shop", "other:5672"), false},
	} {
		topologytest.Equal(t, name, test.same, test.one == test.other)
	}
}

// A refresh of a cluster can take a second to begin.
func TestARecreationWaitsForARefreshOnlyIfTheSnapshotNeedsIt(t *testing.T) {
	t.Parallel()
	older := vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum}
	newer := vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum, vhost.ArgMessageTTL: int64(300_000)}
	for name, test := range map[string]struct {
		nodes       int
		snapshot    vhost.Arguments
		withoutHold bool
		waits       bool
	}{
		"the snapshot of a cluster has the new queue": {nodes: 3, snapshot: newer},
		"the snapshot of a cluster has the old queue": {nodes: 3, snapshot: older, waits: true},
		"a delay tier without a hold queue":           {nodes: 3, snapshot: newer, withoutHold: true, waits: true},
		"one node, whose events are in order":         {nodes: 1, snapshot: newer, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := brokerstest.New(topologytest.V43, "/", "owner")
			broker.SetHealth(func(h *rabbit.Health) { h.Nodes = test.nodes })
			broker.Change(func(s *snapshot.Snapshot) { s.PutQueue("orders", vhost.Queue{Durable: true, Arguments: test.snapshot}) })
			before, waited := broker.Refreshes(), false
			broker.Interfere(func(*snapshot.Snapshot) { waited = true }) // CatchUp calls it
			work := recreationWork{
				connection: &brokers.Broker{Probe: broker, Observer: broker},
				status:     v1alpha1.RecreationStatus{Queue: "orders"},
				recreation: recreate.Recreation{Queue: topology.Queue{Name: "orders", Arguments: newer}, WithoutHold: test.withoutHold},
			}
			topologytest.Equal(t, "error", nil, work.catchUp(t.Context()))
			topologytest.Equal(t, "waited", test.waits, waited)
			topologytest.Equal(t, "requested a refresh", !test.waits, broker.Refreshes() > before)
		})
	}
}
