package deadletterjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// SharesQueue reports whether another ConsumerQueue wants the queue, too. known is false while Warren cannot determine that.
type SharesQueue func(ctx context.Context, cq *v1alpha1.ConsumerQueue, queue string, version vhost.Version) (shares, known bool)

// Finder finds the dead-letter queue of a ConsumerQueue at its broker.
type Finder struct {
	client      client.Reader
	pool        *brokers.Pool
	sharesQueue SharesQueue
}

// NewFinder returns a Finder that reads from a cache and uses the connections of a pool.
func NewFinder(reader client.Reader, pool *brokers.Pool, sharesQueue SharesQueue) *Finder {
	return &Finder{reader, pool, sharesQueue}
}

// Queue is a dead-letter queue at a broker.
type Queue struct {
	ConsumerQueue *v1alpha1.ConsumerQueue
	Broker        *brokers.Broker // nil until it is found
	Version       vhost.Version
	Location      ownership.Location
	// Address is the address of a QueueKey.
	Address string
	// Names are the queues of the ConsumerQueue. Names.Queue is the dead-letter queue; it is empty if there is none.
	Names topology.QueueNames
}

// Key returns the key of the queue in a Register.
func (q Queue) Key() QueueKey {
	return QueueKey{Connection: brokers.ConnectionKey(q.ConsumerQueue), Location: q.Location, Address: q.Address, Name: q.Names.Queue}
}

// Details describe a dead-letter queue at the broker.
type Details struct {
	Source deadletter.Source
	// Type is the type of the queue.
	Type string
	// Limited: the broker may drop messages that were delivered and returned.
	Limited bool
	// DelaysReturned: the broker may hide returned messages for some time.
	DelaysReturned bool
	// SingleActiveConsumer: the broker delivers messages only to one consumer, which may belong to another client.
	SingleActiveConsumer bool
}

// Find finds the dead-letter queue of a ConsumerQueue. With a Blocker it returns a Queue with the fields that it has found so far.
func (f *Finder) Find(ctx context.Context, key client.ObjectKey) (Queue, *Blocker, error) {
	cq, blocker, err := f.ConsumerQueue(ctx, key)
	if blocker != nil || err != nil {
		return Queue{}, blocker, err
	}
	found := Queue{ConsumerQueue: cq}
	bc, err := brokers.ConnectionOf(ctx, f.client, cq)
	if err != nil {
		return found, nil, err
	}
	switch {
	case bc == nil:
		return found, waiting(v1alpha1.ReasonConnectionNotReady, "BrokerConnection %q not found", cq.ConnectionName()), nil
	case bc.Spec.Suspend:
		return found, suspended("BrokerConnection %q is suspended", bc.Name), nil
	}
	broker, version, usable := f.pool.Usable(bc)
	if ready := conditions.ReadyOf(bc); ready.Status == metav1.ConditionFalse {
		blocker := waiting(conditions.ConnectionReason(ready), "%s", conditions.WhyNotReady(bc.Name, ready))
		blocker.KeepRunning = true
		return found, blocker, nil
	}
	if !usable {
		return found, waiting(v1alpha1.ReasonConnectionNotReady, "BrokerConnection %q is connecting", bc.Name).brief(), nil
	}
	health := broker.Health()
	found.Broker, found.Version, found.Address = broker, version, health.Place.Address
	found.Location = ownership.Location{Cluster: health.Cluster, VHost: broker.VHost()}
	if blocker := ComparedAt(found.Location, cq); blocker != nil {
		return found, blocker, nil
	}
	found.Names, err = topology.QueueNamesOf(cq, version)
	if refusal, refused := errors.AsType[*topology.Refusal](err); refused {
		return found, stalled(refusal.Reason, "ConsumerQueue %q: %s", cq.Name, refusal.Message), nil
	}
	return found, nil, err
}

// ConsumerQueue returns a ConsumerQueue whose status describes its current generation, or a Blocker.
func (f *Finder) ConsumerQueue(ctx context.Context, key client.ObjectKey) (*v1alpha1.ConsumerQueue, *Blocker, error) {
	cq := &v1alpha1.ConsumerQueue{}
	err := f.client.Get(ctx, key, cq)
	switch ready := conditions.Ready(cq.Status.Conditions); {
	case client.IgnoreNotFound(err) != nil:
		return nil, nil, fmt.Errorf("get ConsumerQueue %q: %w", key.Name, err)
	case apierrors.IsNotFound(err):
		return nil, stalled(v1alpha1.ReasonConsumerQueueNotFound, "ConsumerQueue %q not found", key.Name), nil
	case !cq.DeletionTimestamp.IsZero():
		return nil, stalled(v1alpha1.ReasonConsumerQueueNotFound, "ConsumerQueue %q is being deleted", key.Name), nil
	case cq.Spec.Suspend:
		return nil, suspended("ConsumerQueue %q is suspended", key.Name), nil
	case ready.Reason == v1alpha1.ReasonConflict:
		return nil, stalled(v1alpha1.ReasonConflict, "ConsumerQueue %q: %s", key.Name, ready.Message), nil
	case cq.Status.ObservedGeneration != cq.Generation:
		return nil, notCompared(key.Name), nil
	}
	return cq, nil, nil
}

// ComparedAt returns a Blocker if the status of a ConsumerQueue describes another location than its connection leads to.
func ComparedAt(here ownership.Location, cq *v1alpha1.ConsumerQueue) *Blocker {
	if here.IsIn(ownership.Recorded(cq.Status.Location)) {
		return nil
	}
	return notCompared(cq.Name)
}

// notCompared is the Blocker until the first status of a ConsumerQueue at a location.
func notCompared(name string) *Blocker {
	return waiting(v1alpha1.ReasonConsumerQueueNotReady, "ConsumerQueue %q has not been compared with the broker yet", name).brief()
}

// Inspect returns the details of a dead-letter queue that Find has found.
func (f *Finder) Inspect(ctx context.Context, found Queue) (Details, *Blocker) {
	name := found.Names.Queue
	switch {
	case name == "":
		return Details{}, stalled(v1alpha1.ReasonNoDeadLetterQueue,
			"ConsumerQueue %q has no dead-letter queue: spec.deadLetter.policy is Disabled", found.ConsumerQueue.Name)
	case !HasQueue(found.ConsumerQueue, name):
		return Details{}, missing(name)
	}
	shares, known := f.sharesQueue(ctx, found.ConsumerQueue, name, found.Version)
	observed, read := found.Broker.Observe(vhost.Selection{Queues: []string{name}})
	if !known || !read {
		return Details{}, waiting(v1alpha1.ReasonConsumerQueueNotReady, "Warren has not read queue %q yet", name).brief()
	}
	queue, exists := observed.Queues[name]
	if !exists {
		return Details{}, missing(name)
	}
	if queue.Type() == vhost.TypeStream {
		return Details{}, stalled(v1alpha1.ReasonSourceIsStream, "queue %q is a stream, and reading a stream removes no message. "+
			"Name a quorum queue in spec.deadLetter.queue.name of ConsumerQueue %q", name, found.ConsumerQueue.Name)
	}
	details := Details{
		Source: deadletter.Source{Main: found.Names.Main, Shared: shares}, Type: cmp.Or(queue.Type(), vhost.TypeClassic),
		Limited:              plan.MayLimitDeliveries(name, queue, observed.Policies, found.Version),
		DelaysReturned:       plan.MayDelayReturned(name, queue, observed.Policies),
		SingleActiveConsumer: queue.Arguments.SingleActiveConsumer(),
	}
	if details.Limited && details.SingleActiveConsumer {
		return Details{}, stalled(v1alpha1.ReasonDeliveryLimited,
			"queue %q has a delivery limit and a single active consumer: RabbitMQ may delete messages that return to it, and does not "+
				"deliver them one by one. Recreate the queue with deliveryLimit Unlimited", name)
	}
	for _, tier := range found.Names.Tiers {
		details.Source.Tiers = append(details.Source.Tiers, tier.Queue)
	}
	return details, nil
}

func missing(queue string) *Blocker {
	return waiting(v1alpha1.ReasonSourceMissing, "queue %q does not exist", queue)
}

// HasQueue reports whether a queue exists at the broker according to the status. A status that omits entries counts as yes.
func HasQueue(cq *v1alpha1.ConsumerQueue, name string) bool {
	return cq.Status.TopologyOmitted > 0 || slices.ContainsFunc(cq.Status.Topology, func(entry v1alpha1.TopologyEntry) bool {
		return entry.Kind == v1alpha1.KindQueue && entry.Name == name && entry.State != v1alpha1.StateMissing
	})
}
