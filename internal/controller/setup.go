package controller

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/internal/rabbit"
)

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
