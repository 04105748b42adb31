package redrive

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// turnsOfConnection is how many Redrives move messages through one BrokerConnection at a time.
const turnsOfConnection = 4

// tasks are the Redrives that have their turn. Each transfer goes on by itself, and has its Redrive reconciled when its state changes and
// when it has ended.
type tasks struct {
	// lifetime ends when the manager does.
	lifetime context.Context // the life of the component, not of a call
	wake     func(client.ObjectKey)

	mu sync.Mutex
	of map[client.ObjectKey]*task
	// queued are those that wait for a turn.
	queued map[client.ObjectKey]bool
}

// task is a turn, and the transfer that has begun in it.
type task struct {
	uid  types.UID
	turn turn

	move     move
	cancel   context.CancelFunc // nil before the transfer has begun
	done     chan struct{}      // closed when it has ended
	settings transfer.Settings
	// stopped: the transfer was told to end early.
	stopped, ended bool
	progress       transfer.Progress
	err            error
	// writtenAt is when the status was written last.
	writtenAt time.Time
	counted   counts
}

func newTasks(lifetime context.Context, wake func(client.ObjectKey)) *tasks {
	return &tasks{lifetime: lifetime, wake: wake, of: map[client.ObjectKey]*task{}, queued: map[client.ObjectKey]bool{}}
}

// look returns the task of a Redrive as it is now; the zero task if there is none.
func (t *tasks) look(key client.ObjectKey, uid types.UID) task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.of[key]; found != nil && found.uid == uid {
		return *found
	}
	return task{}
}

// claim gives a Redrive a turn. If it has to wait, rival is the Redrive that has the turn at the queue; empty if there is none, and the
// connection has no more turns. It is woken when another one gives its turn up.
func (t *tasks) claim(key client.ObjectKey, uid types.UID, wanted turn) (rival client.ObjectKey, granted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := 0
	for other, has := range t.of {
		if has.turn.isAt(wanted) {
			t.queued[key] = true
			return other, false
		}
		if has.turn.connection == wanted.connection {
			taken++
		}
	}
	if taken >= turnsOfConnection {
		t.queued[key] = true
		return client.ObjectKey{}, false
	}
	delete(t.queued, key)
	t.of[key] = &task{uid: uid, turn: wanted}
	return client.ObjectKey{}, true
}

// await has a Redrive woken when another one gives its turn up.
func (t *tasks) await(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued[key] = true
}

// begin starts the transfer of a Redrive that has its turn.
func (t *tasks) begin(key client.ObjectKey, m move, config transfer.Config, settings transfer.Settings, now time.Time) {
	ctx, cancel := context.WithCancel(t.lifetime)
	t.mu.Lock()
	begun := t.of[key]
	begun.move, begun.cancel, begun.done, begun.settings, begun.writtenAt = m, cancel, make(chan struct{}), settings, now
	begun.progress = transfer.Progress{Moved: config.Moved}
	begun.counted = newCounts(key.Namespace, m.consumerQueue, config)
	t.mu.Unlock()
	config.Settings = func() transfer.Settings {
		t.mu.Lock()
		defer t.mu.Unlock()
		return begun.settings
	}
	config.Report = func(progress transfer.Progress) {
		if t.report(begun, progress) {
			t.wake(key)
		}
	}
	go func() {
		defer close(begun.done)
		defer cancel()
		progress, err := m.broker.Transfer(ctx, m.cluster, config)
		t.report(begun, progress)
		t.mu.Lock()
		begun.ended, begun.err = true, err
		t.mu.Unlock()
		t.wake(key)
	}()
}

// report takes note of how a transfer fares, and says whether it does something else now.
func (t *tasks) report(of *task, progress transfer.Progress) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of.counted.add(progress)
	changed = of.progress.State != progress.State
	of.progress = progress
	return changed
}

// change gives a transfer that runs other settings.
func (t *tasks) change(key client.ObjectKey, settings transfer.Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running := t.of[key]; running != nil {
		running.settings = settings
	}
}

// areEnding says whether the manager stops, which ends all transfers early.
func (t *tasks) areEnding() bool { return t.lifetime.Err() != nil }

// awaitEnd waits until all transfers have ended because the manager stops.
func (t *tasks) awaitEnd() {
	<-t.lifetime.Done()
	for _, ending := range t.begun() {
		<-ending.done
	}
}

// stop tells the transfer of a Redrive to settle what it has published, and to end.
func (t *tasks) stop(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running := t.of[key]; running != nil && running.cancel != nil {
		running.stopped = true
		running.cancel()
	}
}

// wrote takes note that the status of a Redrive was written.
func (t *tasks) wrote(key client.ObjectKey, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if running := t.of[key]; running != nil {
		running.writtenAt = now
	}
}

// drop gives up the turn of a Redrive whose transfer has ended, or has not begun, and wakes those that wait for one.
func (t *tasks) drop(key client.ObjectKey) {
	t.mu.Lock()
	_, had := t.of[key]
	had = had || t.queued[key]
	delete(t.of, key)
	delete(t.queued, key)
	var woken []client.ObjectKey
	if had {
		woken = slices.Collect(maps.Keys(t.queued))
		clear(t.queued)
	}
	t.mu.Unlock()
	for _, waiting := range woken {
		t.wake(waiting)
	}
}

// forget ends what a Redrive has that is gone, or that had the same name as the one with this UID. A transfer that runs keeps the turn
// until it has settled what it has published.
func (t *tasks) forget(key client.ObjectKey, but types.UID) {
	t.mu.Lock()
	old := t.of[key]
	other := old != nil && old.uid != but
	runs := other && old.cancel != nil && !old.ended
	t.mu.Unlock()
	switch {
	case runs:
		t.stop(key)
	case other, but == "":
		t.drop(key)
	}
}

// begun returns the Redrives whose transfer has begun.
func (t *tasks) begun() map[client.ObjectKey]task {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[client.ObjectKey]task{}
	for key, has := range t.of {
		if has.cancel != nil {
			found[key] = *has
		}
	}
	return found
}
