package brokers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// ConnectionKey returns the name of the BrokerConnection of a ConsumerQueue.
func ConnectionKey(cq *v1alpha1.ConsumerQueue) client.ObjectKey {
	return client.ObjectKey{Namespace: cq.Namespace, Name: cq.ConnectionName()}
}

// ConnectionOf returns the BrokerConnection of a ConsumerQueue; nil if it does not exist.
func ConnectionOf(ctx context.Context, reader client.Reader, cq *v1alpha1.ConsumerQueue) (*v1alpha1.BrokerConnection, error) {
	bc := &v1alpha1.BrokerConnection{}
	err := reader.Get(ctx, ConnectionKey(cq), bc)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get BrokerConnection %q: %w", cq.ConnectionName(), err)
	}
	return bc, nil
}

// Usable returns the open connection of a BrokerConnection and the version of the broker; false if the connection cannot be used
// yet.
func (p *Pool) Usable(bc *v1alpha1.BrokerConnection) (*Broker, vhost.Version, bool) {
	connection := p.Get(client.ObjectKeyFromObject(bc))
	if connection == nil || connection.Owner() != string(bc.UID) { // of a deleted BrokerConnection of the same name
		return nil, vhost.Version{}, false
	}
	health := connection.Health()
	version, err := vhost.ParseVersion(health.Version)
	return connection, version, err == nil && health.Observable()
}
