package safedelete

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Observer reports the latest state of a broker.
type Observer interface {
	// State returns the latest state of the broker.
	State() State
	// View shows the snapshot of the vhost. Write applies a change to it that the broker has confirmed.
	View(show func(*snapshot.Snapshot))
	Write(change snapshot.Write)
	// RequestRefresh requests a refresh of the vhost.
	RequestRefresh()
	// CheckUnshared fails if another instance works on the vhost.
	CheckUnshared(ctx context.Context) error
	// OtherConnections returns a function that reports whether an owner of another instance may be connected to the vhost. It fails if that
	// is unknown. It lists connections rarely.
	OtherConnections(ctx context.Context) (mayHave func(owner string) bool, err error)
}

// Changer runs operations over AMQP. A call fails if the broker belongs to another cluster.
type Changer interface {
	// DeclaredQueue returns the current counts of a queue; false if the queue does not exist.
	DeclaredQueue(ctx context.Context, cluster, queue string) (declared amqp.Queue, exists bool, err error)
	// DoToTheEnd runs an operation on a channel, which it closes if the operation fails, and returns after the operation has ended.
	// DoExclusively does the same on a channel that no other operation uses, before or after.
	DoToTheEnd(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error
	DoExclusively(ctx context.Context, cluster string, operation func(amqpconn.Exclusive) error) error
	// Dial opens another AMQP connection to the cluster.
	Dial(ctx context.Context, cluster string) (*amqpconn.Conn, error)
	// Declare declares a queue with its bindings.
	Declare(ctx context.Context, cluster string, queue topology.Queue, bindings []topology.Binding) error
}

// State is the latest state of a broker.
type State struct {
	Cluster vhost.Cluster
	// Matched: AMQP and the management API were shown to lead to one broker.
	Matched bool
	// MayWritePolicies: the user has a tag that permits writing policies.
	MayWritePolicies bool
	// CurrentAt is the latest time at which the snapshot is known to be current.
	CurrentAt time.Time
	// Version is the lowest version of the nodes.
	Version vhost.Version
}

// API is the part of the management API that deletions use. *management.Client implements it. PutPolicy and DeletePolicy return
// brokererr.ErrNotLeader if this process no longer leads.
type API interface {
	Cluster(ctx context.Context) (vhost.Cluster, error)
	Policies(ctx context.Context) ([]vhost.Policy, error)
	PutPolicy(ctx context.Context, name, pattern string, priority float64, definition vhost.Arguments) error
	DeletePolicy(ctx context.Context, name string) error
	QueueInfo(ctx context.Context, queue, query string) (*management.QueueInfo, error)
	QueueInfos(ctx context.Context, queues []string, pattern string) (map[string]*management.QueueInfo, error)
	BindingsOf(ctx context.Context, queue string) ([]vhost.Binding, error)
	AllBindings(ctx context.Context) (map[string][]vhost.Binding, error)
}

// Settings configure a Deleter.
type Settings struct {
	VHost string
	// Owner marks fences as fences of one BrokerConnection.
	Owner    string
	User     string
	Errors   brokererr.Errors
	Log      logr.Logger
	Timeouts timing.Timeouts
	// Standing is shared by all Deleters of the process. If nil, the Deleter has its own.
	Standing *Standing
	// KnownOwners returns a function that reports whether an owner belongs to this process. If it is nil, all do.
	KnownOwners func() func(owner string) bool
	// Recreates reports whether a recreation of a queue is under way for Owner. If it is nil, the fences of Owner's recreations stay.
	Recreates func(queue string) bool
	// HoldsLease reports whether this process still leads. If nil, the process always leads.
	HoldsLease func() bool
	// Crash ends operations between two steps, in tests only.
	Crash crashpoint.Seam
}

// Deleter deletes provably empty queues of one vhost, and takes down the fences that earlier deletions have left behind.
type Deleter struct {
	Settings
	sharedReads

	observer  Observer
	changer   Changer
	api       API
	errs      brokererr.Errors
	deletions *register
	batches   *batcher
	sentinels *sentinelConn
	clearing  sync.WaitGroup
	// lastDeletion is when a group of queues was last deleted.
	lastDeletion atomic.Pointer[time.Time]
	sighted      fencesSeen // used only by the goroutine that calls ClearLeftovers
}

// New returns a Deleter.
func New(settings Settings, observer Observer, changer Changer, api API) *Deleter {
	if settings.Standing == nil {
		settings.Standing = &Standing{}
	}
	if settings.HoldsLease == nil {
		settings.HoldsLease = func() bool { return true }
	}
	d := &Deleter{
		Settings: settings, observer: observer, changer: changer, api: api, errs: settings.Errors,
		deletions: newRegister(settings.Standing),
	}
	d.sharedReads = readsOf(api, d.deletions, settings.Errors)
	d.batches = newBatcher(d.runBatch)
	metrics.BatchesReleased.Start()
	d.sentinels = newSentinelConn(settings.Errors, settings.Timeouts, changer.Dial)
	return d
}

// Stop cancels the running deletions. It waits for their end, but not longer than the limit.
func (d *Deleter) Stop(limit time.Duration) { d.deletions.stop(limit) }

// Close waits until running work on leftover fences has ended, and closes the connection for sentinels.
func (d *Deleter) Close() {
	d.clearing.Wait()
	d.sentinels.close()
}

// IsDeleting reports whether a running call of DeleteEmpty, Recreate, SettleRecreation or ClearRecreation works on a queue.
func (d *Deleter) IsDeleting(queue string) bool {
	d.deletions.mu.Lock()
	defer d.deletions.mu.Unlock()
	return d.deletions.queues[queue] != nil
}

// LastDeletion returns when a group of queues was last deleted; zero if none was.
func (d *Deleter) LastDeletion() time.Time {
	if last := d.lastDeletion.Load(); last != nil {
		return *last
	}
	return time.Time{}
}

// Waiting returns how many calls of DeleteEmpty and Recreate wait for a batch.
func (d *Deleter) Waiting() int { return d.batches.count() }
