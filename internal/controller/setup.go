package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/vhost"
)

// fieldOwner owns, by server-side apply, the status that Warren writes.
const fieldOwner = client.FieldOwner("warren")

// reconciliationTimeout bounds one reconciliation, with all its requests to the API server and the broker.
const reconciliationTimeout = 2 * time.Minute

// Options tune the controllers.
type Options struct {
	// MaxConcurrentReconciles is how many ConsumerQueues are reconciled at a time; 8 if zero.
	MaxConcurrentReconciles int
	// MaxManagementResponse is how large an answer of a management API may be, in bytes; rabbit.DefaultResponseLimit if zero.
	MaxManagementResponse int64
}

// Setup adds Warren's controllers to a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.MaxConcurrentReconciles == 0 {
		options.MaxConcurrentReconciles = 8
	}
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	connections := NewConnections(mgr.GetClient(), mgr.GetLogger().WithName("connections"))
	connections.limits = rabbit.NewLimits(options.MaxManagementResponse)
	if err := mgr.Add(connections); err != nil {
		return fmt.Errorf("add connections: %w", err)
	}
	brokerConnections := &BrokerConnectionReconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("warren"), connections: connections,
		farewells: newFarewells(), free: newSightings(), clean: newSightings(),
	}
	if err := brokerConnections.setup(mgr); err != nil {
		return fmt.Errorf("set up BrokerConnections: %w", err)
	}
	consumerQueues := &ConsumerQueueReconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("warren"), connections: connections,
		removals: newRemovals(connections.stopping, connections.reconcile), releases: newReleases(),
		freshness: newFreshness(), departures: newDeparted(),
		deleted: newSightings(), unreached: newTrials(), refused: newTrials(), pending: newTrials(),
		turns: newTurns(options.MaxConcurrentReconciles/2, connections.reconcile),
	}
	if err := consumerQueues.setup(mgr, options.MaxConcurrentReconciles); err != nil {
		return fmt.Errorf("set up ConsumerQueues: %w", err)
	}
	return nil
}

// The indexes by which the cache is asked.
const (
	// indexConnection is, of a ConsumerQueue, the effective name of its BrokerConnection.
	indexConnection = "connection"
	// indexBrokerObject is, of a ConsumerQueue, each broker object that it has to do with.
	indexBrokerObject = "brokerObject"
	// indexStake is, of a ConsumerQueue, what it can share or dispute.
	indexStake = "stake"
	// indexSecret is, of a BrokerConnection, the names of the Secrets that its spec references.
	indexSecret = "secret"
)

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		field  string
		values client.IndexerFunc
	}{
		{&v1alpha1.ConsumerQueue{}, indexConnection, func(object client.Object) []string {
			return []string{object.(*v1alpha1.ConsumerQueue).ConnectionName()}
		}},
		{&v1alpha1.ConsumerQueue{}, indexBrokerObject, func(object client.Object) []string {
			return objectsOf(object.(*v1alpha1.ConsumerQueue))
		}},
		{&v1alpha1.ConsumerQueue{}, indexStake, func(object client.Object) []string {
			return stakesOf(object.(*v1alpha1.ConsumerQueue)).keys()
		}},
		{&v1alpha1.BrokerConnection{}, indexSecret, func(object client.Object) []string {
			return referencedSecrets(object.(*v1alpha1.BrokerConnection))
		}},
	} {
		if err := indexer.IndexField(ctx, index.object, index.field, index.values); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.object, index.field, err)
		}
	}
	return nil
}

// brokerObjects are the keys of indexBrokerObject; a queue and an exchange may have the same name.
func brokerObjects(names vhost.Selection) []string {
	var keys []string
	for _, name := range names.Queues {
		keys = append(keys, "queue/"+name)
	}
	for _, name := range names.Exchanges {
		keys = append(keys, "exchange/"+name)
	}
	if names.FollowFrom != "" {
		keys = append(keys, "route/"+names.FollowFrom)
	}
	return keys
}

// jittered spreads what would otherwise come at the same moment: the interval, up to a tenth longer.
func jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/10+1)
}
