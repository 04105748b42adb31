package controller

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addIndexes adds the indexes by which the cache is asked.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := errors.Join(addBrokerIndexes(ctx, indexer), addBrokerConnectionIndexes(ctx, indexer), addConsumerQueueIndexes(ctx, indexer))
	if err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	return nil
}
