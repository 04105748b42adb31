// Package deadletterqueue finds the dead-letter queue of a ConsumerQueue at the broker, or returns why no dead letter can be taken from it.
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

// SharesQueue says whether another ConsumerQueue wants a queue, too; known is false while that cannot be said.
type SharesQueue func(ctx context.Context, cq *v1alpha1.ConsumerQueue, queue string, version vhost.Version) (shares, known bool)

// Finder finds dead-letter queues.
type Finder struct {
	client      client.Reader
	pool        *brokers.Pool
	sharesQueue SharesQueue
}

// NewFinder makes a Finder that reads from the cache of a client, and asks the connections of a pool.
func NewFinder(reader client.Reader, pool *brokers.Pool, sharesQueue SharesQueue) *Finder {
	return &Finder{reader, pool, sharesQueue}
}

// Queue is a dead-letter queue at a broker.
type Queue struct {
	ConsumerQueue *v1alpha1.ConsumerQueue
	Broker        brokers.Broker // nil until it is found
	Version       vhost.Version
	Location      ownership.Location
	// Names are those of the queues; Names.Queue is the dead-letter queue, and empty if there is none.
	Names topology.DeadLetters
}

// Turn is the turn of those who take messages out of the queue.
func (q Queue) Turn() Turn {
	return Turn{Connection: brokers.ConnectionKey(q.ConsumerQueue), Location: q.Location, Queue: q.Names.Queue}
}

// Details are what the broker has of a dead-letter queue.
type Details struct {
	Source deadletter.Source
	// Type is the type of the queue.
	Type string
	// Limited: the broker may drop messages that are taken and given back.
	Limited bool
	// DelaysReturned: the broker may hide messages for some time that were taken and given back.
	DelaysReturned bool
	// SingleActiveConsumer: nobody gets messages while somebody else consumes.
	SingleActiveConsumer bool
}

// Find finds the dead-letter queue of a ConsumerQueue. What is known is returned with an Blocker, too.
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
	found.Broker, found.Version = broker, version
	found.Location = ownership.Location{Cluster: broker.Health().Cluster, VHost: broker.VHost()}
	if blocker := ComparedAt(found.Location, cq); blocker != nil {
		return found, blocker, nil
	}
	found.Names, err = topology.DeadLettersOf(cq, version)
	if refusal, refused := errors.AsType[*topology.Refusal](err); refused {
		return found, stalled(refusal.Reason, "ConsumerQueue %q: %s", cq.Name, refusal.Message), nil
	}
	return found, nil, err
}

// ConsumerQueue finds a ConsumerQueue that has been compared with the broker.
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

// ComparedAt is the Blocker where the status of a ConsumerQueue tells of another cluster or vhost than its connection leads to.
func ComparedAt(here ownership.Location, cq *v1alpha1.ConsumerQueue) *Blocker {
	if here.IsIn(ownership.Recorded(cq.Status.Location)) {
		return nil
	}
	return notCompared(cq.Name)
}

// notCompared is the Blocker where nobody knows yet what a ConsumerQueue has at the broker.
func notCompared(name string) *Blocker {
	return waiting(v1alpha1.ReasonConsumerQueueNotReady, "ConsumerQueue %q has not been compared with the broker yet", name).brief()
}

// Inspect finds out what the broker has of a dead-letter queue that Find has found.
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
		return Details{}, waiting(v1alpha1.ReasonConsumerQueueNotReady, "not all is known of queue %q yet", name).brief()
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
		SingleActiveConsumer: queue.Arguments[vhost.ArgSingleActiveConsumer] == true,
	}
	for _, tier := range found.Names.Tiers {
		details.Source.Tiers = append(details.Source.Tiers, tier.Queue)
	}
	return details, nil
}

func missing(queue string) *Blocker {
	return waiting(v1alpha1.ReasonSourceMissing, "queue %q does not exist", queue)
}

// HasQueue says whether a ConsumerQueue has a queue at the broker, as far as its status knows. A status that is too long leaves some out.
func HasQueue(cq *v1alpha1.ConsumerQueue, name string) bool {
	return cq.Status.TopologyOmitted > 0 || slices.ContainsFunc(cq.Status.Topology, func(entry v1alpha1.TopologyEntry) bool {
		return entry.Kind == v1alpha1.KindQueue && entry.Name == name && entry.State != v1alpha1.StateMissing
	})
}
