package consumerqueue

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
)

// maxRecreations is how many queues of a vhost are recreated at a time. Each has an AMQP connection.
const maxRecreations = 16

// The waits after a phase has failed. Each wait is twice as long as the one before, up to soonWorkRetry, because the fence may be closed
// during the wait. After soonFailures failures, the maximum is lastWorkRetry, because each attempt writes the status twice. While the
// broker cannot be reached, no work is tried anyway.
const (
	firstWorkRetry = time.Second
	soonWorkRetry  = 5 * time.Second
	soonFailures   = 20
	lastWorkRetry  = 30 * time.Second
)

// recreationTasks runs the phases of recreations in the background, because they take longer than a reconciliation should. Each task
// enqueues its ConsumerQueue when it has ended. A ConsumerQueue has one task at a time. The ConsumerQueue keeps its slot from the phase
// Diverting until the recreation has ended.
type recreationTasks struct {
	lifetime context.Context // of the manager, not of a call
	enqueue  func(client.ObjectKey)

	mu    sync.Mutex
	of    map[client.ObjectKey]*recreationTask
	slots map[client.ObjectKey]recreationPlace // by ConsumerQueue
}

// recreationPlace is a vhost whose recreations share slots. The namespace is empty if the connection proves the endpoint. A tenant can
// forge an unproven endpoint, and must not occupy the slots of other tenants there.
type recreationPlace struct{ namespace, endpoint, vhost string }

// recreationTask is the work of one phase of one recreation. The zero value means that there is no task.
type recreationTask struct {
	// id, phase and runs are copied from the status when the work begins.
	id       string
	phase    v1alpha1.RecreationPhase
	runs     int64
	cancel   context.CancelFunc
	progress recreate.Progress
	// movedBefore and pastBefore are moved and pastBindings of status.recreation when the work begins.
	movedBefore, pastBefore int64
	ended                   time.Time // zero while it runs
	result                  phaseResult
	// failures is how often in a row the work of this phase has failed.
	failures int
	// former is the previous result of the same phase; nil if there is none.
	former *phaseResult
	// taken: the status has the result.
	taken bool
}

// phaseResult is how the work of a phase ended.
type phaseResult struct {
	// seen, listed and following are set in phase Waiting. listed and following count consumers; see plan.ConsumerCounts.
	seen              recreate.Seen
	listed, following int
	// checked is when the queue was last checked and inspected. onlyCounted: this result only updates the counts since then.
	checked     time.Time
	onlyCounted bool

	progress recreate.Progress
	swapped  recreate.Swapped
	err      error
}

// moved returns how many messages the work has moved; past, how many of them came past the bindings.
func (r phaseResult) moved() int { return r.progress.Moved + r.swapped.Moved }

func (r phaseResult) past() int { return r.progress.Past + r.swapped.Past }

func newRecreationTasks(lifetime context.Context, enqueue func(client.ObjectKey)) *recreationTasks {
	metrics.Recreations.Start(string(v1alpha1.RecreationCompleted))
	metrics.Recreations.Start(string(v1alpha1.RecreationBackedOut))
	metrics.RecreationMessages.Start(toBacklog)
	metrics.RecreationMessages.Start(back)
	metrics.RecreationPastBindings.Start()
	return &recreationTasks{
		lifetime: lifetime, enqueue: enqueue, of: map[client.ObjectKey]*recreationTask{}, slots: map[client.ObjectKey]recreationPlace{},
	}
}

func (t recreationTask) exists() bool { return t.id != "" }

func (t recreationTask) isRunning() bool { return t.exists() && t.ended.IsZero() }

// hasResult reports whether the task has ended and the status does not have its result yet.
func (t recreationTask) hasResult() bool { return t.exists() && !t.ended.IsZero() && !t.taken }

// lastResult returns the result of the task or, while it runs, of the task before; false if there is none.
func (t recreationTask) lastResult() (phaseResult, bool) {
	switch {
	case t.exists() && !t.isRunning():
		return t.result, true
	case t.former != nil:
		return *t.former, true
	}
	return phaseResult{}, false
}

// detail describes what the work waits for, or why its last attempt failed. It is empty if neither applies.
func (t recreationTask) detail() string {
	if last, known := t.lastResult(); known && last.err != nil && t.progress.Detail == "" {
		return conditions.ErrorSummary(last.err)
	}
	return t.progress.Detail
}

// retryIn returns how soon failed work is repeated. If messages are pending, the fence is open, and each attempt returns the messages of
// the delay tiers, which RabbitMQ before 4.3 counts as deliveries.
func (t recreationTask) retryIn(now time.Time) time.Duration {
	if t.failures == 0 {
		return 0
	}
	longest := soonWorkRetry
	if t.failures > soonFailures || recreate.ReasonOf(t.result.err) == recreate.MessagesPending {
		longest = lastWorkRetry
	}
	return min(firstWorkRetry<<min(t.failures-1, 10), longest) - now.Sub(t.ended)
}

// get returns a copy of the task of a status; the zero task if there is none. It returns a running task whatever its phase, because that
// task must end first. It ignores a task that has ended if another manager has written the status since then.
func (r *recreationTasks) get(key client.ObjectKey, status v1alpha1.RecreationStatus) recreationTask {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.of[key]
	if found == nil || !found.isRunning() && (found.id != status.ID || found.phase != status.Phase || found.runs != status.Runs) {
		return recreationTask{}
	}
	return *found
}

// begin starts the work of a phase, unless a task of the ConsumerQueue runs. Work may report its progress.
func (r *recreationTasks) begin(
	key client.ObjectKey, status v1alpha1.RecreationStatus,
	work func(ctx context.Context, report func(recreate.Progress)) phaseResult,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	former := r.of[key]
	if former != nil && former.isRunning() {
		return
	}
	ctx, cancel := context.WithCancel(r.lifetime)
	task := &recreationTask{
		id: status.ID, phase: status.Phase, runs: status.Runs, cancel: cancel, movedBefore: status.Moved, pastBefore: status.PastBindings,
	}
	if former != nil && former.id == task.id && former.phase == task.phase {
		result := former.result // a pointer into the former task would retain it, and with it all tasks before
		task.failures, task.former = former.failures, &result
	}
	r.of[key] = task
	go func() {
		defer cancel()
		result := work(ctx, func(progress recreate.Progress) {
			r.mu.Lock()
			defer r.mu.Unlock()
			task.progress = progress
		})
		r.mu.Lock()
		task.ended, task.result = time.Now(), result
		task.failures++
		if result.err == nil {
			task.failures = 0
		}
		r.mu.Unlock()
		r.enqueue(key)
	}()
}

// take records that the status has the result of a task.
func (r *recreationTasks) take(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if task := r.of[key]; task != nil {
		task.taken = true
	}
}

func (r *recreationTasks) stop(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if task := r.of[key]; task != nil {
		task.cancel()
	}
}

// reserve gives a ConsumerQueue a slot at a place; false if none is free. A recreation under way always gets a slot.
func (r *recreationTasks) reserve(key client.ObjectKey, place recreationPlace, isUnderWay bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.others(key, place) >= maxRecreations && !isUnderWay {
		return false
	}
	r.slots[key] = place
	return true
}

// hasSlot reports whether reserve would succeed.
func (r *recreationTasks) hasSlot(key client.ObjectKey, place recreationPlace) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.others(key, place) < maxRecreations
}

// others counts the slots of other ConsumerQueues at a place. The caller holds the lock.
func (r *recreationTasks) others(key client.ObjectKey, place recreationPlace) (taken int) {
	for other, of := range r.slots {
		if of == place && other != key {
			taken++
		}
	}
	return taken
}

// rest frees the slot of a ConsumerQueue that waits or is suspended, unless its task runs.
func (r *recreationTasks) rest(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if task := r.of[key]; task == nil || !task.isRunning() {
		delete(r.slots, key)
	}
}

// release frees the slot, and forgets the task unless it runs.
func (r *recreationTasks) release(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.slots, key)
	if task := r.of[key]; task != nil && !task.isRunning() {
		delete(r.of, key)
	}
}

// forget stops the task of a ConsumerQueue that is gone, and frees its slot.
func (r *recreationTasks) forget(key client.ObjectKey) {
	r.stop(key)
	r.release(key)
}
