package brokermatch

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// listedAgain is the minimum time between two lists that are made because a match queue is missing. Each reconnect creates a new match
// queue, and a hostile server can force a connection to reconnect often.
const listedAgain = 30 * time.Second

// failedAgain is the minimum time between a failed list and the next one.
const failedAgain = 5 * time.Second

// listWait is how long a caller waits for lists of match queues. Callers also stop waiting for a list this long after it began. The
// list continues, and a later call uses its result. So if the management API does not answer, each list delays a worker at
// most once.
const listWait = time.Second

// PlaceChecker checks which other connections lead to the same vhost as one connection. It records the match queues of all connections
// that the management API shows in the vhost.
type PlaceChecker struct {
	errs    brokererr.Errors
	api     *management.Client
	ctx     context.Context // of the connection
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	cluster vhost.Cluster
	last    *list
	listed  map[string]bool // the last list without an error
	// found are the other connections whose match queue was listed. They remain while AMQP is down.
	found map[otherConnection]bool
}

// list is a request for the match queues.
type list struct {
	began time.Time
	done  chan struct{} // closed when the list has ended
	// PlaceChecker.mu guards ended and err. ended is zero until the list has ended.
	ended time.Time
	err   error
}

// NewPlaceChecker returns a PlaceChecker of the connection with this client of the management API.
func NewPlaceChecker(errs brokererr.Errors, api *management.Client) *PlaceChecker {
	c := &PlaceChecker{errs: errs, api: api}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends a running list.
func (c *PlaceChecker) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
}

// LeadsTo reports whether another connection to a vhost of the same name leads to the same vhost as this connection: AMQP opened it
// at the same address, or the management API of this connection shows the match queue of the other one.
func (c *PlaceChecker) LeadsTo(ctx context.Context, here, other health.Health) (bool, error) {
	switch {
	case !here.Cluster.MayBe(other.Cluster):
		return false, nil
	case here.Place.Address != "" && here.Place.Address == other.Place.Address:
		return here.Cluster.Is(other.Cluster), nil
	case other.Place.MatchQueue == "":
		return false, nil
	}
	return c.has(ctx, here.Cluster, other)
}

// otherConnection is another connection with one configuration.
type otherConnection struct {
	owner string
	since time.Time
}

// has reports whether the match queue of another connection is listed. If that connection has reconnected since the last list,
// the last list counts for some time.
func (c *PlaceChecker) has(ctx context.Context, cluster vhost.Cluster, other health.Health) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	for {
		has, pending, err := c.answer(cluster, other)
		if pending == nil {
			return has, err
		}
		if err := pending.await(ctx); err != nil {
			return false, c.errs.Unreachable(err)
		}
	}
}

func (l *list) await(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, l.began.Add(listWait))
	defer cancel()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer returns a pending list if the answer needs one.
func (c *PlaceChecker) answer(cluster vhost.Cluster, other health.Health) (has bool, pending *list, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !cluster.Is(c.cluster) {
		c.cluster, c.last, c.listed, c.found = cluster, nil, nil, map[otherConnection]bool{}
	}
	place, who := other.Place, otherConnection{other.Place.Owner, other.Place.Since}
	if !c.listed[place.MatchQueue] {
		switch {
		case c.last == nil, c.last.isOld(place.Since):
			return false, c.start(), nil
		case c.last.ended.IsZero():
			return false, c.last, nil
		case c.last.err != nil:
			return false, nil, c.last.err
		}
	}
	switch {
	case c.listed[place.MatchQueue]:
		c.found[who] = true
	case other.Matched && place.MatchedAt.Before(c.last.began):
		delete(c.found, who)
	}
	return c.found[who], nil, nil
}

// isOld reports whether a list has ended and is outdated for a connection that exists since the given time.
func (l *list) isOld(since time.Time) bool {
	switch {
	case l.ended.IsZero():
		return false
	case l.err != nil:
		return time.Since(l.ended) > failedAgain
	}
	return time.Since(l.ended) > listedAgain || l.began.Before(since)
}

// start begins a list. The caller must hold the lock.
func (c *PlaceChecker) start() *list {
	next := &list{began: time.Now(), done: make(chan struct{})}
	if c.last = next; c.ctx.Err() != nil {
		next.ended, next.err = next.began, c.errs.Unreachable(c.ctx.Err())
		close(next.done)
		return next
	}
	c.running.Go(func() {
		listed, err := c.api.MatchQueues(c.ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		next.ended, next.err = time.Now(), err
		if err == nil && c.last == next { // the cluster may have changed
			c.listed = listed
		}
		close(next.done)
	})
	return next
}
