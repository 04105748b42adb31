package controller

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokerconnection"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
)

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := errors.Join(
		brokers.AddIndexes(ctx, indexer), brokerconnection.AddIndexes(ctx, indexer), deadletterjob.AddIndexes(ctx, indexer))
	if err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	return nil
}
