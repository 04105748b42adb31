package deadletterjob

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// Tasks are the Redrives and Purges that have their turn. Each task runs in the background. It enqueues its job when its state
// changes and when it has ended.
type Tasks struct {
	// lifetime ends when the manager stops.
	lifetime  context.Context // of the component, not of a call
	enqueuers map[Kind]func(client.ObjectKey)
	statuses  map[Kind]*statuswriter.Writer
	// records writes the lists of finished jobs into the statuses of ConsumerQueues.
	records statuswriter.Writer

	mu sync.Mutex
	of map[Key]*Task
	// queued are the jobs that wait for a turn or for a slot.
	queued map[Key]queuedJob

	// slotKept is how long a move that waits keeps its slot although another job needs it.
	slotKept time.Duration

	// users has all users of dead-letter queues. entries has the entries of the jobs.
	users   *Register
	entries map[Key]*Entry
}

// queuedJob is a job that waits for another job of its ConsumerQueue, or for a slot if behind is zero.
type queuedJob struct {
	turn   turn
	behind Key
}

// Task is a job that has its turn, and its move if the move has begun. The zero Task means that the job does not have its turn.
type Task struct {
	uid types.UID

	Move     Move
	cancel   context.CancelFunc // nil before the move has begun
	done     chan struct{}      // closed when it has ended
	settings mover.Settings
	// Stopped: the context of the move was cancelled before it ended.
	Stopped, Ended bool
	Progress       mover.Progress
	// waitsSince is when the move began to wait; zero if it does not wait.
	waitsSince time.Time
	// reclaimed is the progress when the move was stopped to give its slot to another job; zero if it kept its slot.
	reclaimed mover.Progress
	// Err is why the move cannot continue.
	Err error
	// writtenAt is when the status was last written.
	writtenAt time.Time
	// config is the configuration of the move, without the fields that Tasks sets.
	config mover.Config
}

// HasBegun reports whether the move has begun; it may have ended.
func (t Task) HasBegun() bool { return t.cancel != nil }

// waits reports whether the move waits for a queue or for the broker.
func (t Task) waits() bool {
	switch t.Progress.State {
	case "", mover.Moving:
		return false
	case mover.Connecting:
		return t.runs() && t.Progress.Detail != "" // the broker could not be reached
	}
	return t.runs()
}

// runs reports whether the move has begun and has not ended.
func (t Task) runs() bool { return t.HasBegun() && !t.Ended }

// NewTasks returns Tasks whose moves end with lifetime, and take turns with the other users of a Register.
func NewTasks(lifetime context.Context, users *Register) *Tasks {
	return &Tasks{
		lifetime: lifetime, enqueuers: map[Kind]func(client.ObjectKey){}, of: map[Key]*Task{}, queued: map[Key]queuedJob{},
		statuses: map[Kind]*statuswriter.Writer{Redrive: {}, Purge: {}}, users: users, entries: map[Key]*Entry{},
		slotKept: slotKept,
	}
}

// OnEnqueue sets the function that enqueues a job of a kind. Call it before the first reconciliation.
func (t *Tasks) OnEnqueue(kind Kind, enqueue func(client.ObjectKey)) { t.enqueuers[kind] = enqueue }

// get returns the task of a job; the zero Task if there is none.
func (t *Tasks) get(key Key, uid types.UID) Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.of[key]; found != nil && found.uid == uid {
		return *found
	}
	return Task{}
}

// acquire gives a job its turn. If the job must wait, it is enqueued when its turn comes or a slot is free.
func (t *Tasks) acquire(key Key, uid types.UID, wanted QueueKey) (why Wait, granted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch own := t.of[key]; {
	case own == nil:
	case own.uid == uid && !own.HasBegun(): // it had the turn, and no move has begun
		delete(t.of, key)
	default: // the move of a deleted job of the same name is still settling
		t.queued[key] = queuedJob{}
		return Wait{namesake: true}, false
	}
	used := t.count(key.Namespace)
	if full := t.fullLimit(used); full != "" {
		t.leave(key)
		t.queued[key] = queuedJob{}
		t.reclaim(key.Namespace, used, full)
		return Wait{full: full, begun: used.begun}, false
	}
	if blockedBy, waits := t.entryAt(key, wanted).Waits(); waits {
		return Wait{blockedBy: blockedBy}, false
	}
	delete(t.queued, key)
	t.of[key] = &Task{uid: uid}
	return Wait{}, true
}

func (t *Tasks) entryAt(key Key, wanted QueueKey) *Entry {
	if entry := t.entries[key]; entry != nil && entry.Queue() == wanted {
		return entry
	}
	t.leave(key)
	t.entries[key] = t.users.Join(key, wanted, func() { t.enqueue(key) })
	return t.entries[key]
}

func (t *Tasks) leave(key Key) {
	if entry := t.entries[key]; entry != nil {
		delete(t.entries, key)
		entry.Leave()
	}
}

// await enqueues a job when the job that is first in its ConsumerQueue releases its turn. Until then the job has no entry for the queue.
func (t *Tasks) await(own turn, first Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if task := t.of[own.key]; task == nil || !task.runs() {
		t.leave(own.key)
	}
	t.queued[own.key] = queuedJob{own, first}
}

// nextBehind removes the first job that waits for another job, and returns it. The others then wait for that first one. So the end of a
// job enqueues one job of the ConsumerQueue, although hundreds may wait.
func (t *Tasks) nextBehind(key Key) (next Key, found bool) {
	var behind []turn
	for _, queued := range t.queued {
		if queued.behind == key {
			behind = append(behind, queued.turn)
		}
	}
	if len(behind) == 0 {
		return Key{}, false
	}
	next = slices.MinFunc(behind, turn.compare).key
	delete(t.queued, next)
	for _, other := range behind {
		if other.key != next {
			t.queued[other.key] = queuedJob{other, next}
		}
	}
	return next, true
}

// begin starts the move of a job that has its turn.
func (t *Tasks) begin(key Key, m Move, config mover.Config, settings mover.Settings, now time.Time) {
	ctx, cancel := context.WithCancel(t.lifetime)
	t.mu.Lock()
	begun := t.of[key]
	begun.Move, begun.cancel, begun.done, begun.settings, begun.writtenAt = m, cancel, make(chan struct{}), settings, now
	begun.Progress = mover.Progress{Moved: config.Moved, Unsure: config.Unsure, Apart: config.MovedApart}
	begun.config = config
	entry := t.entries[key]
	t.mu.Unlock()
	if !config.DryRun { // a count removes nothing, and must see all messages
		entry.RecordRemoval()
		entry.AdmitBrowses(func() int { return t.progressOf(begun).Held })
	}
	drops := m.drops()
	config.Settings = func() mover.Settings {
		paused := entry.IsBrowsed() || drops()
		t.mu.Lock()
		defer t.mu.Unlock()
		settings := begun.settings
		settings.Paused = paused
		return settings
	}
	config.Report = func(progress mover.Progress) {
		changed, freed := t.report(begun, progress)
		if changed {
			t.enqueue(key)
		}
		if freed {
			t.enqueueQueued()
		}
	}
	go func() {
		defer close(begun.done)
		defer cancel()
		progress, err := m.Broker.Move(ctx, m.Cluster, config)
		t.report(begun, progress)
		t.mu.Lock()
		begun.Ended, begun.Err = true, err
		t.mu.Unlock()
		t.enqueue(key)
	}()
}

func (t *Tasks) progressOf(task *Task) mover.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return task.Progress
}

func (t *Tasks) enqueue(key Key) { t.enqueuers[key.Kind](key.ObjectKey) }

// report records the progress of a move. changed reports whether the status must be written, because the move changed its state or needs
// another atMost. freed reports whether the move has begun to wait, which frees its slot.
func (t *Tasks) report(of *Task, progress mover.Progress) (changed, freed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of.config.Report(progress)
	before, waited := of.Progress, of.waits()
	of.Progress = progress
	switch {
	case !of.waits():
		of.waitsSince = time.Time{}
	case !waited:
		of.waitsSince = time.Now()
	}
	changed = before.State != progress.State || before.Moved+before.InFlight != progress.Moved+progress.InFlight && of.needsAtMost()
	return changed, !waited && of.waits()
}

// enqueueQueued enqueues the jobs that wait for a slot.
func (t *Tasks) enqueueQueued() {
	var waiting []Key
	t.mu.Lock()
	maps.DeleteFunc(t.queued, func(key Key, queued queuedJob) bool {
		if queued.behind == (Key{}) {
			waiting = append(waiting, key)
			return true
		}
		return false
	})
	t.mu.Unlock()
	for _, key := range waiting {
		t.enqueue(key)
	}
}

// needsAtMost reports whether the move of a task needs another atMost.
func (t Task) needsAtMost() bool {
	return t.runs() && !t.config.DryRun && isAtMostDue(t.config, t.Progress, t.settings)
}

func (t *Tasks) change(key Key, settings mover.Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running := t.of[key]; running != nil {
		running.settings = settings
	}
}

// areEnding reports whether the manager stops, which ends all moves early.
func (t *Tasks) areEnding() bool { return t.lifetime.Err() != nil }

// awaitEnd waits until the stop of the manager has ended all moves.
func (t *Tasks) awaitEnd() {
	<-t.lifetime.Done()
	for _, kind := range []Kind{Redrive, Purge} {
		for _, ending := range t.begun(kind) {
			<-ending.done
		}
	}
}

// stop makes the move of a job settle its published messages and end.
func (t *Tasks) stop(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running := t.of[key]; running != nil && running.cancel != nil {
		running.stop()
	}
}

func (t *Task) stop() {
	t.Stopped = true
	t.cancel()
}

// wrote records that the status of a job was written.
func (t *Tasks) wrote(key Key, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running := t.of[key]; running != nil {
		running.writtenAt = now
	}
}

// drop releases the turn of a job whose move has ended or has not begun. It enqueues the next job of the ConsumerQueue, and the jobs that
// wait for a slot. A move that runs for a deleted job of the same name keeps its turn.
func (t *Tasks) drop(key Key, uid types.UID) {
	t.mu.Lock()
	has := t.of[key]
	_, queued := t.queued[key]
	had := has != nil || queued
	if has == nil || has.uid == uid || !has.runs() {
		delete(t.of, key)
		t.leave(key)
	}
	delete(t.queued, key)
	next, found := t.nextBehind(key)
	t.mu.Unlock()
	if found {
		t.enqueue(next)
	}
	if had {
		t.enqueueQueued()
	}
}

// forget stops the task of a job that is gone, or of a deleted job of the same name. A move keeps its turn until it has settled its
// published messages.
func (t *Tasks) forget(key Key, but types.UID) {
	t.mu.Lock()
	old := t.of[key]
	other := old != nil && old.uid != but
	var former Task
	if other {
		former = *old
	}
	t.mu.Unlock()
	switch {
	case former.runs():
		t.stop(key)
	case former.Ended:
		former.config.Log.Info("The job was deleted before it ended", "messages", former.Progress.Moved, "dryRun", former.config.DryRun)
		t.drop(key, but)
	case other, but == "":
		t.drop(key, but)
	}
}

// begun returns the tasks of a kind whose move has begun.
func (t *Tasks) begun(kind Kind) map[Key]Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[Key]Task{}
	for key, has := range t.of {
		if key.Kind == kind && has.HasBegun() {
			found[key] = *has
		}
	}
	return found
}
