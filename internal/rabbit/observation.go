package rabbit

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// Connections that may read the same of one vhost share what they read: with a hundred BrokerConnections the vhost is read
// and kept in memory once, not a hundred times. Who connects as whom, and whether AMQP and the management API lead to one
// broker, stays with each connection.

// Observations has one observation per vhost and rights, for as long as a connection uses it.
type Observations struct {
	mu     sync.Mutex
	shared map[observationKey]*observation
}

// NewObservations makes an empty set.
func NewObservations() *Observations { return &Observations{shared: map[observationKey]*observation{}} }

// observationKey is equal where connections may read the same, and believe the same broker.
type observationKey struct {
	// broker is the endpoints, and what makes a certificate of the broker's believed; see Config.brokerFingerprint.
	broker string
	// clusterID is that of vhost.Cluster. Clusters without one are not shared: their identity is not sure.
	clusterID string
	vhost     string
	// tags are the rights of the user.
	tags string
	// definitions tells the two ways to read a vhost apart.
	definitions bool
}

// observation is what is known of a vhost.
type observation struct {
	key     observationKey
	store   snapshot.Store
	members members
	survey  survey

	reading management.Places // of one, for whoever reads the vhost
	readAt  time.Time         // when the last reading began that succeeded; guarded by reading

	mu    sync.Mutex
	views map[*view]bool
}

// viewer is a connection as an observation sees it.
type viewer struct {
	// notify is told of what changed.
	notify func(snapshot.Notice)
	// fences lists the policies that deletions of the connection have put up.
	fences func() map[string]bool
}

// view is one connection's use of an observation.
type view struct {
	*observation

	viewer viewer
	// unheard are the objects that others have written since the last reading; guarded by observation.mu.
	unheard []vhost.ID
}

// open gives a connection a view of the observation with a key; of one of its own if the cluster has no ID.
func (o *Observations) open(key observationKey, viewer viewer) *view {
	o.mu.Lock()
	defer o.mu.Unlock()
	observed, exists := o.shared[key]
	if !exists {
		observed = &observation{
			key: key, reading: management.NewPlaces(1), survey: survey{places: management.NewPlaces(1)}, views: map[*view]bool{},
		}
	}
	if key.clusterID != "" {
		o.shared[key] = observed
	}
	opened := &view{observation: observed, viewer: viewer}
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

// refresh sees to it that the vhost was read at the given time or later: if nobody did, now. It returns when the reading began.
// The limit is for how long others may be reading meanwhile: a broker that answers nobody must not keep a hundred connections
// waiting one after the other.
func (v *view) refresh(
	ctx context.Context, errs brokererr.Errors, limit time.Duration, oldest time.Time, read readFunc,
) (began time.Time, err error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = v.reading.Hold(waiting, errs, func() error {
		if began = v.readAt; !began.Before(oldest) {
			return nil
		}
		began = time.Now()
		again, err := v.readAndReplace(ctx, read)
		if err == nil && again {
			_, err = v.readAndReplace(ctx, read)
		}
		if err == nil {
			v.readAt = began
		}
		return err
	})
	return began, err
}

// readAndReplace says whether the vhost is to be read again, for something is missing that was there before.
func (v *view) readAndReplace(ctx context.Context, read readFunc) (again bool, err error) {
	fresh, etag, err := read(ctx, v.store.Begin())
	if err != nil {
		v.store.End()
		if errors.Is(err, management.ErrNotModified) {
			err = nil
		}
		return false, err
	}
	fresh.UnderWay = v.fences()
	changed, again := v.store.Replace(fresh, etag)
	v.notifyAll(changed)
	return again, nil
}

// write takes over a change that the broker has confirmed. The other connections hear of the change with the next reading, as
// they do of changes that somebody else makes.
func (v *view) write(change snapshot.Write) {
	if !v.store.Write(change) || change.ID == (vhost.ID{}) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for other := range v.views {
		if other != v {
			other.unheard = append(other.unheard, change.ID)
		}
	}
}

// fences lists the policies that deletions of all connections have put up.
func (v *view) fences() map[string]bool {
	all := map[string]bool{}
	for _, other := range v.all() {
		maps.Copy(all, other.viewer.fences())
	}
	return all
}

// notifyAll tells every connection what a reading changed, and what the others have written before.
func (v *view) notifyAll(changed snapshot.Notice) {
	for _, other := range v.all() {
		other.viewer.notify(changed)
		if unheard := other.takeUnheard(); len(unheard) > 0 {
			v.store.View(func(s *snapshot.Snapshot) { other.viewer.notify(s.Concerning(unheard)) })
		}
	}
}

func (v *view) takeUnheard() []vhost.ID {
	v.mu.Lock()
	defer v.mu.Unlock()
	unheard := v.unheard
	v.unheard = nil
	return unheard
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
