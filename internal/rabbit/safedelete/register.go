package safedelete

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

const (
	// RequestLimit is how many requests to the management API deletions make at a time.
	RequestLimit = 4
	// fenceLimit is how many batches have fences standing at a time. While the queues of one batch are proved empty or deleted, the
	// policy of the next can be written. But policies are written one at a time, and RabbitMQ compiles the pattern of every policy
	// that stands for each queue of the vhost then: in a vhost of 1,500 queues a write takes 0.1 s longer with each fence.
	fenceLimit = 3
)

// register keeps the deletions that are under way, and what they leave to do.
type register struct {
	standing *Standing
	requests management.Places
	fencing  chan struct{} // a place for each fence; see fenced
	running  sync.WaitGroup
	closing  context.Context // it is over when the connection is about to be closed
	close    context.CancelFunc

	mu       sync.Mutex
	withheld int // places for fences that nobody gets for the time being
	closed   bool
	queues   map[string]bool
	// fences are those of deletions, by the names of their policies: the zero time while in use, and since when they have been left
	// behind otherwise.
	fences   map[string]time.Time
	clearing bool // strays
	// searches is what is known of searches for sentinels that found some missing, by the names of the policies.
	searches map[string]*searched
	// vanishing are the queues behind fences that RabbitMQ may still be deleting, by the names of the policies.
	vanishing map[string]vanishing
	// adrift is since when a sentinel of a fence may be on its way, by the names of the policies.
	adrift map[string]time.Time
	// standsFor is why fences could not be taken down, by the names of their policies.
	standsFor map[string]string
	// seen is since when fences of recreations are known that an earlier process has left, by the names of their policies.
	seen map[string]time.Time
	// again is for a refresh that shows what became of fences that are left behind, at againAt.
	again   *time.Timer
	againAt time.Time
}

// vanishing are queues that RabbitMQ may still be deleting until a time.
type vanishing struct {
	queues []string
	until  time.Time
}

// searched is what this process knows of the search for the sentinels of a fence.
type searched struct {
	without map[string]time.Time // since when queues are known to hold no sentinel, of those from which some may have expired
	looked  map[string]bool      // the queues in which messages were in front of what was looked for
}

func newRegister(standing *Standing) *register {
	d := &register{
		standing: standing, requests: management.NewPlaces(RequestLimit), fencing: make(chan struct{}, fenceLimit),
		queues: map[string]bool{}, fences: map[string]time.Time{}, standsFor: map[string]string{}, adrift: map[string]time.Time{},
		seen:     map[string]time.Time{},
		searches: map[string]*searched{}, vanishing: map[string]vanishing{},
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

// stop ends what is under way, and waits for it.
func (d *register) stop(limit time.Duration) {
	d.mu.Lock()
	d.closed = true
	if d.again != nil {
		d.again.Stop()
	}
	d.mu.Unlock()
	d.close()
	ended := make(chan struct{})
	go func() {
		d.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

var errBusy = errors.New("busy")

// begin counts a deletion among the running ones until the returned function is called, and gives it a context that ends
// when the connection is about to be closed. It fails with ErrClosed, or with errBusy and the name of a queue that
// another one is about.
func (d *register) begin(ctx context.Context, queues []string) (context.Context, func(), string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, "", brokererr.ErrClosed
	}
	if busy := slices.IndexFunc(queues, func(queue string) bool { return d.queues[queue] }); busy >= 0 {
		return nil, nil, queues[busy], errBusy
	}
	for _, queue := range queues {
		d.queues[queue] = true
	}
	d.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.closing, func() { cancel(brokererr.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, queue := range queues {
			delete(d.queues, queue)
		}
		d.running.Done()
	}, "", nil
}

// trackFence takes note of a fence, so that it does not pass for one that was left behind; untrackFence ends that. A fence that
// could not be lifted counts as left behind from then on.
func (d *register) trackFence(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fences[name] = time.Time{}
	d.standing.add(name)
}

func (d *register) untrackFence(name string, lifted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.standing.remove(name)
	if d.fences[name] = time.Now(); lifted {
		delete(d.fences, name)
		delete(d.adrift, name)
		delete(d.searches, name)
	}
}

// stuck is for how long deletions wait while fences stand that could not be taken down.
const stuck = time.Minute

// awaitLifted waits while too many fences stand that could not be taken down. A broker that was too busy to remove a policy in time becomes
// busier with each further one, until no policy can be written or removed in time any more. One fence may never be taken down, if a
// permission is gone, so the wait has a limit.
func (d *register) awaitLifted() {
	limit, look := time.NewTimer(stuck), time.NewTicker(time.Second)
	defer limit.Stop()
	defer look.Stop()
	for d.countLeft() >= fenceLimit {
		select {
		case <-look.C:
		case <-limit.C:
			return
		case <-d.closing.Done():
			return
		}
	}
}

// countLeft is how many fences could not be taken down.
func (d *register) countLeft() (count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, left := range d.fences {
		if !left.IsZero() {
			count++
		}
	}
	return count
}

// drift takes note of a sentinel that was sent and of which the broker did not say what became of it.
func (d *register) drift(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.adrift[name] = time.Now()
}

// mayArrive says whether a sentinel of a fence may still come: a node that died may have passed it on to the others.
func (d *register) mayArrive(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, adrift := d.adrift[name]
	return adrift && time.Since(since) < unnoticed
}

// forget drops what is known of a fence that is down.
func (d *register) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.fences, name)
	delete(d.adrift, name)
	delete(d.searches, name)
	delete(d.standsFor, name)
	delete(d.vanishing, name)
	delete(d.seen, name)
}

// firstSeen is since when a fence of a recreation is known.
func (d *register) firstSeen(name string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[name].IsZero() {
		d.seen[name] = time.Now()
	}
	return d.seen[name]
}

// forgetMissing drops what is known of fences that were left behind before a reading of the vhost began which does not show them: the
// policy was removed, and the answer to that was lost.
func (d *register) forgetMissing(shown func(name string) bool, began time.Time) {
	for _, name := range d.leftBefore(began) {
		if !shown(name) {
			d.forget(name)
		}
	}
}

// leftBefore are the fences that were left behind before a time.
func (d *register) leftBefore(limit time.Time) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, left := range d.fences {
		if !left.IsZero() && left.Before(limit) {
			names = append(names, name)
		}
	}
	return names
}

// refreshIn has the vhost refreshed after a time, unless it will be sooner.
func (d *register) refreshIn(wait time.Duration, refresh func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := time.Now().Add(wait)
	if d.againAt.After(time.Now()) && d.againAt.Before(at) {
		return
	}
	if d.again != nil {
		d.again.Stop()
	}
	d.again, d.againAt = time.AfterFunc(wait, refresh), at
}

// leaveClosed records that RabbitMQ may still be deleting queues behind a fence.
func (d *register) leaveClosed(name string, queues []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vanishing[name] = vanishing{queues, time.Now().Add(unanswered)}
}

// mayVanish lists the queues behind a fence that RabbitMQ may still be deleting.
func (d *register) mayVanish(name string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.vanishing[name]; time.Now().Before(left.until) {
		return left.queues
	}
	return nil
}

// search is what is known of the search for the sentinels of a fence. The lock is held.
func (d *register) search(name string) *searched {
	if d.searches[name] == nil {
		d.searches[name] = &searched{map[string]time.Time{}, map[string]bool{}}
	}
	return d.searches[name]
}

// missingSince is since when this process has known that sentinels are missing in a queue.
func (d *register) missingSince(name, queue string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.search(name)
	if known.without[queue].IsZero() {
		known.without[queue] = time.Now()
	}
	return known.without[queue]
}

// recordLook records that other messages were in front of what was looked for in a queue.
func (d *register) recordLook(name, queue string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.search(name).looked[queue] = true
}

// hasLooked reports whether there is a record of that.
func (d *register) hasLooked(name, queue string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.searches[name] != nil && d.searches[name].looked[queue]
}

// isTracked reports whether this connection put a fence up, and whether a deletion needs the fence.
func (d *register) isTracked(name string) (standing, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left, known := d.fences[name]
	return known && left.IsZero(), known
}

// errSlow: a deletion took longer than it may.
var errSlow = errors.New("slow")

// fenced holds a place for a fence during a step. Where a broker has too much to do, many deletions at a time take too long, all of
// them, and are undone and tried again. So each that takes too long withholds a place, down to a single one, and each that ends
// well gives one back.
func (d *register) fenced(step func() error) error {
	select {
	case d.fencing <- struct{}{}:
	case <-d.closing.Done():
		return brokererr.ErrClosed
	}
	err := step()
	for range d.placesAfter(err) {
		<-d.fencing
	}
	return err
}

// placesAfter is how many places are free again after a deletion that ended with this error.
func (d *register) placesAfter(err error) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, errSlow) && d.withheld < fenceLimit-1:
		d.withheld++
		return 0
	case err == nil && d.withheld > 0:
		d.withheld--
		return 2
	}
	return 1
}
