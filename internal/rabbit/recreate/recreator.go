package recreate

import (
	"context"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Observer reports the known state of a broker.
type Observer interface {
	// View shows the snapshot of the vhost.
	View(show func(*snapshot.Snapshot))
	// Observe returns a selection of the snapshot.
	Observe(selection vhost.Selection) (vhost.Observed, bool)
	// Version is the version that the broker reports; empty before the first contact.
	Version() string
	// MayWritePolicies reports whether the user has a tag that permits writing policies.
	MayWritePolicies() bool
	// IsTaken reports whether Warren deletes the queue, takes messages out of it, or moves messages to it.
	IsTaken(queue string) bool
	// CheckUnshared fails if another instance works on the vhost.
	CheckUnshared(ctx context.Context) error
}

// Changer changes a broker. A call fails if the broker belongs to another cluster.
type Changer interface {
	// Declare declares exchanges and queues, then bindings. Remove ignores objects that do not exist.
	Declare(ctx context.Context, cluster string, wanted topology.Topology) error
	Remove(ctx context.Context, cluster string, removal change.Removal) error
	// DeclaredQueue returns the current counts of a queue; false if the queue does not exist.
	DeclaredQueue(ctx context.Context, cluster, queue string) (declared amqp.Queue, exists bool, err error)
	// Dial opens an AMQP connection that discards the bodies of messages above a size in bytes.
	Dial(ctx context.Context, cluster, name string, largestBody int64) (*amqpconn.Conn, error)
	// Move moves messages.
	Move(ctx context.Context, cluster string, config mover.Config) (mover.Progress, error)
}

// Deleter is the part of safedelete that a recreation uses.
type Deleter interface {
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error) error
	Recreate(ctx context.Context, cluster string, recreation safedelete.Recreation) (safedelete.Recreated, error)
	SettleRecreation(ctx context.Context, cluster string, queue topology.Queue) (isNew bool, err error)
	CheckNoDelete(ctx context.Context, cluster, queue string) error
	ClearRecreation(ctx context.Context, cluster, queue string, isNew bool) error
}

// API is the part of the management API that a recreation uses.
type API interface {
	Policies(ctx context.Context) ([]vhost.Policy, error)
	QueueInfo(ctx context.Context, queue, query string) (*management.QueueInfo, error)
	BindingsOf(ctx context.Context, queue string) ([]vhost.Binding, error)
	Nodes(ctx context.Context, columns string) ([]management.Node, error)
	QuorumStatus(ctx context.Context, queue string) ([]management.Member, error)
	Consumers(ctx context.Context, queue string) ([]management.Consumer, error)
}

// Settings configure a Recreator.
type Settings struct {
	// Cluster is the Key of the cluster that the recreation is for. On another cluster, every call fails with ErrOtherCluster.
	Cluster  string
	VHost    string
	Username string
	Owner    string
	Errors   brokererr.Errors
	Log      logr.Logger
	// Crash ends operations between two steps, in tests only.
	Crash crashpoint.Seam
}

// Recreator recreates queues of one vhost. It is safe for concurrent use with different queues.
type Recreator struct {
	Settings

	observer Observer
	changer  Changer
	deleter  Deleter
	api      API
}

// New returns a Recreator.
func New(settings Settings, observer Observer, changer Changer, deleter Deleter, api API) *Recreator {
	return &Recreator{Settings: settings, observer: observer, changer: changer, deleter: deleter, api: api}
}

// The steps after which a test can end a recreation as a crash would, in addition to the steps of safedelete.
const (
	StepProbed       = "probed"
	StepHoldDeclared = "hold declared"
	StepRecorded     = "recorded"
	StepHoldBound    = "hold bound"
	StepUnbound      = "unbound"
	StepMoved        = "moved"
	StepFrozen       = "frozen"
	StepSwapped      = "swapped"
	StepBackBound    = "back bound"
	StepRebound      = "rebound"
	StepHoldUnbound  = "hold unbound"
	StepHoldDeleted  = "hold deleted"
)
