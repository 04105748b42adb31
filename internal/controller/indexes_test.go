package controller

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokerconnection"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestIndexes(t *testing.T) {
	t.Parallel()
	cq := controllertest.Named(t, "shop", "orders", `{
		retry: {exchange: {name: orders}, delayTiers: [{delay: 1s}], returnTo: {exchange: back}},
		bindings: [{exchange: {name: events, type: topic}}]
	}`)
	index := map[string][]string{}
	collect := indexerFunc(func(object client.Object, field string, values client.IndexerFunc) {
		switch object.(type) {
		case *v1alpha1.ConsumerQueue:
			index[field] = values(cq)
		case *v1alpha1.BrokerConnection:
			index[field] = values(controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "broker"}}))
		}
	})
	topologytest.Equal(t, "error", nil, addIndexes(t.Context(), collect))
	topologytest.Equal(t, "connection", []string{"default"}, index[brokers.IndexConnection])
	topologytest.Equal(t, "secret", []string{"broker"}, index[brokerconnection.IndexSecret])
	keys := []string{
		"queue/orders", "queue/orders.dlq", "queue/orders.retry.1s", "exchange/events", "exchange/orders", "exchange/orders.dlx",
		"route/orders", "route/orders.dlx", "route/back",
	}
	topologytest.Equal(t, "keys", keys, brokers.ObjectKeysOf(cq))
	topologytest.Equal(t, "a bucket for each key", len(keys), len(index[brokers.IndexBrokerObject]))
}

type indexerFunc func(object client.Object, field string, values client.IndexerFunc)

func (f indexerFunc) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	f(object, field, values)
	return nil
}
