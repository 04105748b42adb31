package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokerconnection"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/consumerqueue"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// Options configure the controllers.
type Options struct {
	// MaxConcurrentReconciles is the maximum number of concurrent reconciliations of ConsumerQueues; 8 if zero.
	MaxConcurrentReconciles int
	// MaxManagementResponse limits each answer of a management API, in bytes; management.DefaultResponseLimit if zero.
	MaxManagementResponse int64
	// MessageCountsInterval is the minimum time between two counts of a vhost's messages. Zero disables the counts.
	MessageCountsInterval time.Duration
	// HoldsLease reports whether this process leads at the moment of the call. If it does not, nothing is deleted and no fence is
	// changed. nil means that the process always leads.
	HoldsLease func() bool
}

// Setup adds Warren's controllers to a manager. It returns the Finder of dead-letter queues and the Register of their users for the
// dead-letter API.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) (*deadletterjob.Finder, *deadletterjob.Register, error) {
	if options.MaxConcurrentReconciles == 0 {
		options.MaxConcurrentReconciles = 8
	}
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, nil, err
	}
	limits := management.NewLimits(options.MaxManagementResponse)
	connect := brokers.ConnectWithin(limits, options.MessageCountsInterval, options.HoldsLease)
	connections := brokers.NewPool(mgr.GetClient(), mgr.GetLogger().WithName("connections"), connect)
	if err := mgr.Add(connections); err != nil {
		return nil, nil, fmt.Errorf("add connections: %w", err)
	}
	ofConnections, err := brokerconnection.Setup(mgr, connections)
	if err != nil {
		return nil, nil, fmt.Errorf("set up BrokerConnections: %w", err)
	}
	queues, err := consumerqueue.Setup(mgr, connections, options.MaxConcurrentReconciles)
	if err != nil {
		return nil, nil, fmt.Errorf("set up ConsumerQueues: %w", err)
	}
	finder := deadletterjob.NewFinder(mgr.GetClient(), connections, queues.SharesQueue)
	users := &deadletterjob.Register{}
	tasks := deadletterjob.NewTasks(connections.Lifetime(), users)
	redrives, err := deadletterjob.Setup(mgr, deadletterjob.Redrive, tasks, finder)
	if err != nil {
		return nil, nil, fmt.Errorf("set up Redrives: %w", err)
	}
	purges, err := deadletterjob.Setup(mgr, deadletterjob.Purge, tasks, finder)
	if err != nil {
		return nil, nil, fmt.Errorf("set up Purges: %w", err)
	}
	return finder, users, addMetrics(mgr, connections.EmitMetrics, brokers.EmitMemory(limits), ofConnections, queues.EmitMetrics,
		redrives.EmitMetrics, tasks.EmitInFlight, purges.EmitMetrics)
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := errors.Join(
		brokers.AddIndexes(ctx, indexer), brokerconnection.AddIndexes(ctx, indexer), deadletterjob.AddIndexes(ctx, indexer))
	if err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	return nil
}
