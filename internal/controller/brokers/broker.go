package brokers

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Broker is a connection to one vhost of a RabbitMQ broker. A *rabbit.Connection implements the four embedded interfaces, and the
// fields wrap its method Recreator. The errors are in package brokererr.
type Broker struct {
	Probe
	Observer
	Changer
	Mover
	// Recreator returns the Recreator for the cluster with this key.
	Recreator func(cluster string) Recreator
	// LostRecreations returns the LostRecreations for the cluster with this key.
	LostRecreations func(cluster string) LostRecreations
}

// Probe describes the connection and where it leads.
type Probe interface {
	// Owner returns the UID of the BrokerConnection that the connection was opened for.
	Owner() string
	// VHost returns the name of the vhost.
	VHost() string
	// Health returns the state of the connection.
	Health() rabbit.Health
	// LeadsTo reports whether the connection with this health was shown to lead to the same vhost. It fails with ErrUnreachable if the
	// management API does not answer.
	LeadsTo(ctx context.Context, other rabbit.Health) (bool, error)
	// Stats returns the values of the metrics.
	Stats() rabbit.Stats
	// Close closes the connection, and returns when its goroutines have ended.
	Close()
}

// Observer reads the objects of the vhost. The snapshot is in memory and shared by all connections that see the same vhost.
type Observer interface {
	// Observe returns the selected objects from the snapshot; false before the first refresh.
	Observe(selection vhost.Selection) (vhost.Observed, bool)
	// Refresh returns after a refresh that began after the call. It fails with the error of the refresh, or with ErrClosed.
	Refresh(ctx context.Context) error
	// RequestRefresh requests a refresh that begins after the call, and does not wait for it.
	RequestRefresh()
	// RequestCatchUp requests that the snapshot becomes current as of the call, by events if they arrive and by a refresh otherwise.
	RequestCatchUp()
	// CatchUp is RequestCatchUp, but waits until the snapshot is current. It returns the same errors as Refresh.
	CatchUp(ctx context.Context) error
	// Messages returns how many messages queues held when messages were last counted.
	Messages(queues []string) rabbit.Messages
	// Consumers returns what the last counts showed about other consumers of a queue.
	Consumers(queue string) rabbit.Consumers
	// RefusedBrowse returns why the broker refused the last browse of a queue; nil if it did not.
	RefusedBrowse(queue string) error
}

// Changer changes the vhost. A change for another cluster than the connection's fails with ErrOtherCluster.
type Changer interface {
	// Apply declares and binds. It fails with an ObjectError for each object that the broker refused, joined.
	Apply(ctx context.Context, changes topology.Topology) error
	// Remove unbinds, and deletes exchanges, on the cluster with this key. It fails with ErrShared if another instance of Warren works on
	// the vhost, and with an ObjectError for each object that the broker refused, joined.
	Remove(ctx context.Context, cluster string, removal rabbit.Removal) error
	// DeleteEmpty deletes queues that are provably empty, on the cluster with this key. Before it deletes, it calls stillDeletable and
	// returns any error of that call. It retains a queue that may hold messages or has consumers, and fails with ErrNotEmpty or
	// ErrUnproven.
	DeleteEmpty(ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error) error
	// LastDeletion returns when DeleteEmpty last deleted queues; zero if it never did.
	LastDeletion() time.Time
	// Fences returns the names of the policies of this owner that may make queues refuse messages.
	Fences() []string
}

// Mover browses, moves and deletes messages. It fails with ErrOtherCluster if the connection leads to a cluster with another key, and
// with ErrAccessRefused if the user may not read the queue.
type Mover interface {
	// Move moves or deletes messages until it has seen the configured number, or ctx ends.
	Move(ctx context.Context, cluster string, config mover.Config) (mover.Progress, error)
	// Browse shows messages and leaves them in the queue.
	Browse(ctx context.Context, cluster string, config mover.BrowseConfig) (mover.Browsed, error)
	// CountQueue counts the messages of a queue of this type; exists is false if there is no such queue.
	CountQueue(ctx context.Context, cluster, queue, queueType string) (counted rabbit.QueueCounts, exists bool, err error)
}

// Recreator recreates queues, phase by phase. Each method may be called again after a crash at any point. A *recreate.Recreator
// implements it.
type Recreator interface {
	// Check fails with a *recreate.Error if the queue cannot be recreated, and writes nothing.
	Check(ctx context.Context, r recreate.Recreation) error
	// Count returns how many consumers and ready messages the queue has. It uses no request to the management API.
	Count(ctx context.Context, r recreate.Recreation) (recreate.QueueSeen, error)
	// Inspect returns the state of the queues and the fence at the broker.
	Inspect(ctx context.Context, r recreate.Recreation) (recreate.Seen, error)
	// Consumers returns how many consumers of the queue the broker lists, and how many of them follow the contract in a ConfigMap.
	Consumers(ctx context.Context, r recreate.Recreation, configMap string) (listed, following int)
	// Divert moves the bindings of the queue to the hold queue, if there is one. It calls record with all bindings before it moves new
	// ones.
	Divert(ctx context.Context, r recreate.Recreation, record func(context.Context, []vhost.Binding) error) error
	// Empty moves the messages of the queue to the backlog.
	Empty(ctx context.Context, r recreate.Recreation, report func(recreate.Progress)) (recreate.Progress, error)
	// Swap calls recordDelete before it deletes the queue, which must be provably empty, and declares it again.
	Swap(ctx context.Context, r recreate.Recreation, recordDelete func(context.Context) error) (recreate.Swapped, error)
	// GiveBack moves the messages and bindings back to the queue.
	GiveBack(ctx context.Context, r recreate.Recreation, report func(recreate.Progress)) (recreate.Progress, error)
}

// LostRecreations finds recreations whose status was lost, and writes nothing. A *recreate.Recreator implements it.
type LostRecreations interface {
	// Find returns the IDs of a queue's recreations whose hold or backlog is in the snapshot.
	Find(queue string) []string
	// Inspect returns the state of the queues and the fence at the broker.
	Inspect(ctx context.Context, r recreate.Recreation) (recreate.Seen, error)
	// CheckNoDelete fails while the queue may be deleted by a process that is gone.
	CheckNoDelete(ctx context.Context, r recreate.Recreation) error
}
