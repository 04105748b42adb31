package safedelete

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/retry"
)

const (
	// RequestLimit is how many requests deletions make to the management API at a time.
	RequestLimit = 4
	// fenceLimit is how many batches have fences up at a time. While Warren proves or deletes the queues of one batch, it can write
	// the policy of the next. More fences make each write slower, because RabbitMQ compiles the pattern of every policy for each
	// queue of the vhost: 0.1 s for each fence in a vhost of 1,500 queues.
	fenceLimit = 3
)

// register has the state of the running deletions, and of the fences that they have left behind.
type register struct {
	standing *Standing
	requests retry.Slots
	slots    chan struct{} // a slot for each batch with fences; see fenced
	running  sync.WaitGroup
	closing  context.Context // ends when the connection is about to be closed
	close    context.CancelFunc

	mu       sync.Mutex
	withheld int // slots that are not given out for now; see fenced
	closed   bool
	// queues has the function that cancels the running deletion of a queue, by queue name.
	queues map[string]context.CancelCauseFunc
	// fences are the fences of deletions, by policy name. The value is zero while a fence is in use, and otherwise the time since which the
	// fence has been left behind.
	fences   map[string]time.Time
	clearing bool // leftover fences
	// searches has the state of the search for the sentinels of each fence, by policy name.
	searches map[string]*searched
	// vanishing are the queues behind fences that RabbitMQ may still be deleting, by policy name.
	vanishing map[string]vanishing
	// unansweredAt is when a sentinel was last sent without an answer, by policy name.
	unansweredAt map[string]time.Time
	// failures are the reasons why fences could not be taken down, by policy name.
	failures map[string]string
	// seen is when this process first saw a fence that an earlier call of Recreate has left, by policy name.
	seen map[string]time.Time
	// again requests a refresh for leftover fences at againAt.
	again   *time.Timer
	againAt time.Time
}

// vanishing are queues that RabbitMQ may still be deleting until the given time.
type vanishing struct {
	queues []string
	until  time.Time
}

// searched is the state of the search for the sentinels of a fence.
type searched struct {
	without map[string]time.Time // when a queue was first seen without sentinels, if sentinels may have expired there
	browsed map[string]bool      // the queues in which other messages were in front of the sentinels
	// complete is when a queue with messages was last searched completely. arrived is the time from which no expired sentinel can
	// arrive; zero if a sentinel may still expire or arrive.
	complete map[string]time.Time
	arrived  time.Time
}

func newRegister(standing *Standing) *register {
	d := &register{
		standing: standing, requests: retry.NewSlots(RequestLimit), slots: make(chan struct{}, fenceLimit),
		queues: map[string]context.CancelCauseFunc{}, fences: map[string]time.Time{}, failures: map[string]string{},
		unansweredAt: map[string]time.Time{}, seen: map[string]time.Time{},
		searches: map[string]*searched{}, vanishing: map[string]vanishing{},
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

// stop cancels the running deletions and waits for their end, but not longer than the limit.
func (r *register) stop(limit time.Duration) {
	r.mu.Lock()
	r.closed = true
	for _, cancel := range r.queues {
		cancel(brokererr.ErrClosed)
	}
	if r.again != nil {
		r.again.Stop()
	}
	r.mu.Unlock()
	r.close()
	ended := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

// ErrBusy means that another call works on one of the queues.
var ErrBusy = errors.New("busy")

// begin registers a deletion until the returned function is called. The returned context ends when the connection is about to be
// closed. begin fails with ErrClosed, or with ErrBusy and the name of a queue that another call works on.
func (r *register) begin(ctx context.Context, queues []string) (context.Context, func(), string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, "", brokererr.ErrClosed
	}
	if busy := slices.IndexFunc(queues, func(queue string) bool { return r.queues[queue] != nil }); busy >= 0 {
		return nil, nil, queues[busy], ErrBusy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	for _, queue := range queues {
		r.queues[queue] = cancel
	}
	r.running.Add(1)
	return ctx, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, queue := range queues {
			delete(r.queues, queue)
		}
		r.running.Done()
	}, "", nil
}

// trackFence records that a fence is in use, so that it does not count as left behind. untrackFence records the end of the use. From then
// on, a fence that could not be taken down counts as left behind.
func (r *register) trackFence(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fences[name] = time.Time{}
	r.standing.names.Store(name, nil)
}

func (r *register) untrackFence(name string, lifted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing.names.Delete(name)
	if r.fences[name] = time.Now(); lifted {
		delete(r.fences, name)
		delete(r.unansweredAt, name)
		delete(r.searches, name)
	}
}

// stuck limits the wait of awaitLifted.
const stuck = time.Minute

// awaitLifted waits while too many fences could not be taken down. A broker that was too busy to remove a policy in time becomes busier
// with each additional policy, until it can neither write nor remove a policy in time. The wait has a limit, because a fence may stay up
// permanently if a permission is missing.
func (r *register) awaitLifted() {
	limit, check := time.NewTimer(stuck), time.NewTicker(time.Second)
	defer limit.Stop()
	defer check.Stop()
	for r.countLeft() >= fenceLimit {
		select {
		case <-check.C:
		case <-limit.C:
			return
		case <-r.closing.Done():
			return
		}
	}
}

// countLeft returns how many fences could not be taken down.
func (r *register) countLeft() (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, left := range r.fences {
		if !left.IsZero() {
			count++
		}
	}
	return count
}

// recordUnanswered records that the broker has not answered a sentinel of a fence.
func (r *register) recordUnanswered(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unansweredAt[name] = time.Now()
}

// mayArrive reports whether a sentinel of a fence may still arrive, because a node that died may have passed it on to other nodes.
func (r *register) mayArrive(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, isUnanswered := r.unansweredAt[name]
	return isUnanswered && time.Since(since) < unnoticed
}

// forget removes all state of a fence that is down.
func (r *register) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.fences, name)
	delete(r.unansweredAt, name)
	delete(r.searches, name)
	delete(r.failures, name)
	delete(r.vanishing, name)
	delete(r.seen, name)
}

// firstSeen returns when this process first saw the fence of a recreation.
func (r *register) firstSeen(name string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[name].IsZero() {
		r.seen[name] = time.Now()
	}
	return r.seen[name]
}

// forgetMissing removes the state of fences that were left behind before a read of the vhost began and that the read does not show. Their
// policies were removed, but the answers to the removals were lost.
func (r *register) forgetMissing(shown func(name string) bool, began time.Time) {
	for _, name := range r.leftBefore(began) {
		if !shown(name) {
			r.forget(name)
		}
	}
}

// leftBefore returns the fences that were left behind before a time.
func (r *register) leftBefore(limit time.Time) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, left := range r.fences {
		if !left.IsZero() && left.Before(limit) {
			names = append(names, name)
		}
	}
	return names
}

// refreshIn requests a refresh of the vhost after a time, unless an earlier one is scheduled.
func (r *register) refreshIn(wait time.Duration, refresh func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Now().Add(wait)
	if r.againAt.After(time.Now()) && r.againAt.Before(at) {
		return
	}
	if r.again != nil {
		r.again.Stop()
	}
	r.again, r.againAt = time.AfterFunc(wait, refresh), at
}

// leaveClosed records that RabbitMQ may still be deleting queues behind a fence.
func (r *register) leaveClosed(name string, queues []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vanishing[name] = vanishing{queues, time.Now().Add(unanswered)}
}

// mayVanish lists the queues behind a fence that RabbitMQ may still be deleting.
func (r *register) mayVanish(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.vanishing[name]; time.Now().Before(left.until) {
		return left.queues
	}
	return nil
}

// search returns the state of the search for the sentinels of a fence. The lock is held.
func (r *register) search(name string) *searched {
	if r.searches[name] == nil {
		r.searches[name] = &searched{without: map[string]time.Time{}, browsed: map[string]bool{}, complete: map[string]time.Time{}}
	}
	return r.searches[name]
}

// missingSince returns when this process first saw a queue without sentinels.
func (r *register) missingSince(name, queue string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.search(name)
	if known.without[queue].IsZero() {
		known.without[queue] = time.Now()
	}
	return known.without[queue]
}

// recordBrowse records that other messages were in front of the sentinels of a queue.
func (r *register) recordBrowse(name, queue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.search(name).browsed[queue] = true
}

// hasBrowsed reports whether recordBrowse was called for a queue.
func (r *register) hasBrowsed(name, queue string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.searches[name] != nil && r.searches[name].browsed[queue]
}

// recordSearch records that a search has examined all messages of a queue.
func (r *register) recordSearch(name, queue string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.search(name).complete[queue] = time.Now()
}

// recordArrived records that no sentinel that expired behind a fence can arrive any more.
func (r *register) recordArrived(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.search(name); known.arrived.IsZero() {
		known.arrived = time.Now()
	}
}

// isSearched reports whether to skip another search of a queue: it would find no sentinel, or sentinels may still arrive. A queue is
// searched completely at most three times: at first, once no unanswered sentinel can arrive, and once no expired one can.
func (r *register) isSearched(name, queue string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.search(name)
	last, unanswered := known.complete[queue], r.unansweredAt[name]
	if last.IsZero() || unanswered.IsZero() {
		return last.After(known.arrived)
	}
	settled := unanswered.Add(unnoticed)
	return time.Now().Before(settled) || last.After(settled) && last.After(known.arrived)
}

// isTracked reports whether this connection put a fence up (known), and whether a deletion needs the fence (standing).
func (r *register) isTracked(name string) (standing, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, known := r.fences[name]
	return known && left.IsZero(), known
}

// errSlow: a deletion exceeded its time limit.
var errSlow = errors.New("slow")

// fenced runs a step while it holds a slot. If too many concurrent deletions overload the broker, all of them take too long, and are undone
// and retried. Therefore each deletion that takes too long withholds a slot, down to a single slot. Each successful deletion releases a
// withheld slot.
func (r *register) fenced(step func() error) error {
	select {
	case r.slots <- struct{}{}:
	case <-r.closing.Done():
		return brokererr.ErrClosed
	}
	err := step()
	for range r.slotsAfter(err) {
		<-r.slots
	}
	return err
}

// slotsAfter returns how many slots become free after a deletion that ended with this error.
func (r *register) slotsAfter(err error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, errSlow) && r.withheld < fenceLimit-1:
		r.withheld++
		return 0
	case err == nil && r.withheld > 0:
		r.withheld--
		return 2
	}
	return 1
}
