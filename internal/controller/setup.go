package controller

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/internal/controller/brokerconnection"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/consumerqueue"
	"github.com/warren-mq/warren/internal/rabbit/management"
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
	connect := brokers.ConnectWithin(management.NewLimits(options.MaxManagementResponse))
	connections := brokers.NewPool(mgr.GetClient(), mgr.GetLogger().WithName("connections"), connect)
	if err := mgr.Add(connections); err != nil {
		return fmt.Errorf("add connections: %w", err)
	}
	if err := brokerconnection.Setup(mgr, connections); err != nil {
		return fmt.Errorf("set up BrokerConnections: %w", err)
	}
	if err := consumerqueue.Setup(mgr, connections, options.MaxConcurrentReconciles); err != nil {
		return fmt.Errorf("set up ConsumerQueues: %w", err)
	}
	return nil
}
