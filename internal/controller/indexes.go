package controller

import (
	"context"
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
