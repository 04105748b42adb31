package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Connections of one user to one vhost share what they read: with a hundred BrokerConnections the vhost is read and kept in memory
// once, not a hundred times. Whether AMQP and the management API lead to one broker stays with each connection, and so does the
// survey of other operators.

// Observations has one observation per vhost and rights, for as long as a connection uses it, and knows what all connections take.
type Observations struct {
	mu     sync.Mutex
	shared map[observationKey]*observation

	takes takes
	// standing are the fences of the deletions of all connections.
	standing safedelete.Standing
}

// NewObservations makes an empty set.
func NewObservations() *Observations { return &Observations{shared: map[observationKey]*observation{}} }

// observationKey is equal where connections may read the same, and believe the same broker.
type observationKey struct {
	// broker is the endpoints, and what makes a certificate of the broker's believed; see Config.brokerFingerprint.
	broker string
	// clusterID is that of vhost.Cluster. It is empty, and nothing is shared, where the identity is not sure: of a cluster whose
	// ID the user may not read, and while no AMQP connection has been matched with the management API.
	clusterID string
	vhost     string
	// user and tags stand for the rights.
	user, tags string
	// definitions tells the two ways to read a vhost apart.
	definitions bool
}

func (k observationKey) isShared() bool { return k.clusterID != "" }

// observation is what is known of a vhost.
type observation struct {
	key observationKey
	// standing is that of Observations.
	standing *safedelete.Standing

	store   snapshot.Store
	members members
	counts  counts
	// consumers are those of queues that somebody has asked about.
	consumers consumers

	reading management.Places // of one, for whoever reads the vhost

	listening management.Places // of one, for whoever hears events
	events    eventfeed.Feed
	own       eventfeed.OwnChanges
	pending   eventfeed.PendingNotices

	mu      sync.Mutex
	readAt  time.Time     // when the last reading began that succeeded
	newsAt  time.Time     // when the last reading ended that was not told that nothing has changed
	took    time.Duration // how long it took
	views   map[*view]bool
	written []written // since the last reading
}

// written is what a change that a connection has made concerns.
type written struct {
	by        *view
	concerned snapshot.Notice
}

// viewer is a connection as an observation sees it.
type viewer struct {
	// notify is told of what changed.
	notify func(snapshot.Notice)
	// isDeleting says whether the connection is deleting a queue.
	isDeleting func(queue string) bool
	// patience is timeouts.binding.
	patience time.Duration
	// silences is the wait before another subscription where one was silent.
	silences retry.Backoff
}

// view is one connection's use of an observation.
type view struct {
	*observation

	viewer   viewer
	openedAt time.Time
}

// open gives a connection a view of the observation with a key; of one of its own if nothing is to be shared.
func (o *Observations) open(key observationKey, viewer viewer) *view {
	o.mu.Lock()
	defer o.mu.Unlock()
	observed, exists := o.shared[key]
	if !exists {
		observed = &observation{
			key: key, reading: management.NewPlaces(1), listening: management.NewPlaces(1), views: map[*view]bool{},
			events: eventfeed.NewFeed(viewer.silences), standing: &o.standing,
		}
	}
	if key.isShared() {
		o.shared[key] = observed
	}
	opened := &view{observation: observed, viewer: viewer, openedAt: time.Now()}
	observed.mu.Lock()
	defer observed.mu.Unlock()
	observed.views[opened] = true
	return opened
}

// close ends a view, and with the last one the observation. What it held can still be read.
func (o *Observations) close(v *view) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v.mu.Lock()
	delete(v.views, v)
	last := len(v.views) == 0
	v.mu.Unlock()
	if !last {
		return
	}
	if o.shared[v.key] == v.observation {
		delete(o.shared, v.key)
	}
	v.store.Close()
}

// readFunc reads a vhost; management.ErrNotModified if the ETag still holds.
type readFunc func(ctx context.Context, etag string) (*snapshot.Snapshot, string, error)

// errReadByAnother: another connection has been reading the vhost for too long to wait any longer.
var errReadByAnother = errors.New("another connection is reading the vhost")

// demand is what a refresh must fulfil.
type demand struct {
	// oldest is when the reading may have begun at the earliest.
	oldest time.Time
	// twice has the vhost read a second time, as if something had been missing; see snapshot/doubt.go.
	twice bool
	// limit is for how long others may be reading meanwhile: a broker that answers nobody must not keep a hundred connections
	// waiting one after the other.
	limit time.Duration
}

// refresh reads the vhost, unless somebody has as is demanded. It returns when the reading began.
func (v *view) refresh(ctx context.Context, errs brokererr.Errors, demand demand, read readFunc) (began time.Time, err error) {
	waiting, cancel := context.WithTimeout(ctx, demand.limit)
	defer cancel()
	held := false
	err = v.reading.Hold(waiting, errs, func() error {
		held = true
		previous := v.lastRead()
		if began = previous; !began.Before(demand.oldest) {
			return nil
		}
		began = time.Now()
		before := v.events.Count()
		difference, again, err := v.readAndReplace(ctx, read)
		if err == nil && (again || demand.twice) {
			var more snapshot.Difference
			more, _, err = v.readAndReplace(ctx, read)
			difference.Add(more)
		}
		if err == nil {
			v.events.Refreshed(previous, before, difference)
			v.read(began)
		}
		return err
	})
	if !held && ctx.Err() == nil {
		reasons := []error{brokererr.ErrTimeout, errReadByAnother}
		err = errs.Because(reasons, fmt.Sprintf("%v: waiting for another connection that reads the vhost", brokererr.ErrTimeout))
	}
	return began, err
}

// lastRead is when the last reading began that succeeded; zero before the first.
func (o *observation) lastRead() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.readAt
}

// read takes note of a reading that has just ended well.
func (o *observation) read(began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readAt, o.took = began, time.Since(began)
}

// hadNews takes note of a reading that may have had news.
func (o *observation) hadNews() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newsAt = time.Now()
}

// changedAt is when the vhost may have changed last; zero before the first reading.
func (o *observation) changedAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newsAt
}

// nextReading is when the vhost may be read again: after the pace, and later where a reading takes long.
func (o *observation) nextReading(pace pace) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.readAt.Add(max(pace.pause, time.Duration(pace.share)*o.took))
}

// readAndReplace returns what changed. again reports whether the vhost must be read again, because something is missing that
// was there before.
func (v *view) readAndReplace(ctx context.Context, read readFunc) (difference snapshot.Difference, again bool, err error) {
	fresh, etag, err := read(ctx, v.store.Begin())
	if err != nil {
		v.store.End()
		if errors.Is(err, management.ErrNotModified) {
			err = nil
		}
		return difference, false, err
	}
	v.hadNews()
	fresh.UnderWay = v.standing.All()
	changed, difference, again := v.store.Replace(fresh, etag)
	v.notifyAll(changed)
	return difference, again, nil
}

// write takes over a change that the broker has confirmed. The other connections hear of the change with the next reading, as
// they do of changes that somebody else makes.
func (v *view) write(change snapshot.Write) {
	if len(v.all()) < 2 {
		v.store.Write(change)
		return
	}
	concerned := v.store.WriteAndTell(change)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written = append(v.written, written{v, concerned})
}

// notifyAll tells every connection what a reading changed, and what the others have written before.
func (v *view) notifyAll(changed snapshot.Notice) {
	written := v.takeWritten()
	for _, other := range v.all() {
		other.viewer.notify(changed)
		var untold []snapshot.Notice
		for _, w := range written {
			if w.by != other {
				untold = append(untold, w.concerned)
			}
		}
		if len(untold) > 0 {
			v.store.View(func(s *snapshot.Snapshot) { other.viewer.notify(s.WithUpstream(snapshot.Merge(untold))) })
		}
	}
}

func (v *view) takeWritten() []written {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.written
	v.written = nil
	return all
}

func (v *view) all() []*view {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*view, 0, len(v.views))
	for other := range v.views {
		all = append(all, other)
	}
	return all
}
