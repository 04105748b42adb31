package observe

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
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// Connections of one user to one vhost share a snapshot. Even for a hundred BrokerConnections, the vhost is read and kept in memory only
// once. Each connection matches AMQP with the management API and surveys other instances itself.

// Observations holds one observation for each vhost and set of rights, as long as a connection uses it. It also records which queues Warren
// itself consumes, and to which queues it moves messages.
type Observations struct {
	mu     sync.Mutex
	shared map[observationKey]*observation

	// consumed are the queues that Warren browses or moves messages from, filled those to which it moves messages.
	consumed, filled queueUses
	// Standing are the fences of the deletions of all connections.
	Standing safedelete.Standing
}

// NewObservations returns an empty set.
func NewObservations() *Observations { return &Observations{shared: map[observationKey]*observation{}} }

// Connections with equal keys may read the same objects, and trust the same broker.
type observationKey struct {
	// broker identifies the endpoints and the settings for valid certificates; see Settings.Broker.
	broker string
	// clusterID is the ID of vhost.Cluster. If it is empty, nothing is shared, because the identity of the broker is not certain: the user
	// may not read the ID, or no AMQP connection has been matched.
	clusterID string
	vhost     string
	// user and tags stand for the rights.
	user, tags string
	// definitions distinguishes the two ways to read a vhost.
	definitions bool
}

func (k observationKey) isShared() bool { return k.clusterID != "" }

// observation is the observed state of a vhost, which connections with the same rights share.
type observation struct {
	key observationKey
	// standing is Observations.Standing.
	standing *safedelete.Standing

	store   snapshot.Store
	members members
	counts  counts
	// consumers records the consumers of the queues for which callers asked.
	consumers consumers

	refreshing retry.Slots // one slot, for the connection that refreshes the vhost

	listening retry.Slots // one slot, for the connection that receives events
	events    eventfeed.Feed
	own       eventfeed.OwnChanges
	pending   eventfeed.PendingNotices

	mu      sync.Mutex
	readAt  time.Time     // when the last successful refresh began
	newsAt  time.Time     // when the last refresh ended whose answer was not "not modified"
	took    time.Duration // how long it took
	views   map[*view]bool
	written []written // since the last read
}

// written is the notice of a change that a connection has made.
type written struct {
	by        *view
	concerned snapshot.Notice
}

// viewer is a connection as an observation sees it.
type viewer struct {
	// notify receives notices of what changed.
	notify func(snapshot.Notice)
	// isDeleting reports whether the connection is deleting a queue.
	isDeleting func(queue string) bool
	// bindingWait is timing.Timeouts.Binding.
	bindingWait time.Duration
	// silences is the wait before another subscription after a silent one.
	silences retry.Backoff
}

// view is one connection's use of an observation.
type view struct {
	*observation

	viewer   viewer
	openedAt time.Time
}

// open returns a view of the observation with a key, or of a new one if nothing is shared.
func (o *Observations) open(key observationKey, viewer viewer) *view {
	o.mu.Lock()
	defer o.mu.Unlock()
	observed, exists := o.shared[key]
	if !exists {
		observed = &observation{
			key: key, refreshing: retry.NewSlots(1), listening: retry.NewSlots(1), views: map[*view]bool{},
			events: eventfeed.NewFeed(viewer.silences), standing: &o.Standing,
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

// close removes a view, and the observation with its last view. Its content can still be read.
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

// readFunc reads a vhost. It returns management.ErrNotModified if the ETag is still valid.
type readFunc func(ctx context.Context, etag string) (*snapshot.Snapshot, string, error)

// errReadByAnother: another connection is still reading the vhost.
var errReadByAnother = errors.New("another connection is reading the vhost")

// demand has the requirements for a refresh.
type demand struct {
	// oldest is the earliest permitted beginning of the refresh.
	oldest time.Time
	// twice requests a second read, as if an object had been missing; see snapshot/doubt.go.
	twice bool
	// limit is how long to wait for another connection that refreshes. Without it, a hundred connections to a broker that does not answer
	// would wait one after the other.
	limit time.Duration
}

// refresh reads the vhost, unless another connection has fulfilled the demand. It returns when the read began.
func (v *view) refresh(ctx context.Context, errs brokererr.Errors, demand demand, read readFunc) (began time.Time, err error) {
	waiting, cancel := context.WithTimeout(ctx, demand.limit)
	defer cancel()
	held := false
	err = v.refreshing.Hold(waiting, errs, func() error {
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
		err = errs.Because(reasons, fmt.Sprintf("%v: another connection is still reading vhost %q", brokererr.ErrTimeout, errs.VHost))
	}
	return began, err
}

// lastRead returns when the last successful read began; zero before the first.
func (o *observation) lastRead() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.readAt
}

// read records a read that just succeeded.
func (o *observation) read(began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readAt, o.took = began, time.Since(began)
}

// hadNews records that a read may have found changes.
func (o *observation) hadNews() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newsAt = time.Now()
}

// changedAt returns when the vhost may last have changed; zero before the first read.
func (o *observation) changedAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newsAt
}

// longestPause is the longest pause after a slow read. During the pause, Warren does not see a change whose event it missed.
const longestPause = time.Minute

// nextRefresh returns when the vhost may be read again: after the pause of the pace, or later if a read takes long.
func (o *observation) nextRefresh(pace timing.Pace) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.readAt.Add(max(pace.Pause, min(time.Duration(pace.Share)*o.took, o.took+longestPause)))
}

// readAndReplace reads the vhost and returns the changes. again reports whether the vhost must be read again because an object is missing
// that existed before.
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

// write applies a confirmed change to the snapshot. The other connections receive its notice with the next read, as for changes by other
// clients.
func (v *view) write(change snapshot.Write) {
	if len(v.all()) < 2 {
		v.store.Write(change)
		return
	}
	concerned := v.store.WriteWithNotice(change)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written = append(v.written, written{v, concerned})
}

// notifyAll sends each connection a notice of the changes that a refresh found, and of earlier changes by the other connections.
func (v *view) notifyAll(changed snapshot.Notice) {
	written := v.takeWritten()
	for _, other := range v.all() {
		other.viewer.notify(changed)
		var foreign []snapshot.Notice
		for _, w := range written {
			if w.by != other {
				foreign = append(foreign, w.concerned)
			}
		}
		if len(foreign) > 0 {
			v.store.View(func(s *snapshot.Snapshot) { other.viewer.notify(s.WithUpstream(snapshot.Merge(foreign))) })
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
