package redrive

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/deadletter"
)

// move says where messages are taken from and where they go.
type move struct {
	broker  brokers.Broker
	cluster string
	turn    turn
	// consumerQueue is the name of the ConsumerQueue, and source tells its dead letters.
	consumerQueue string
	source        deadletter.Source
	// destination is empty if each message goes where it was published first.
	destination string
	route       contract.Route
	// limited: the queue may lose messages that are given back.
	limited bool
}

// turn is what one Redrive at a time has: a queue. A connection has so many turns.
type turn struct {
	connection            client.ObjectKey
	cluster, vhost, queue string
}

// isAt says whether two turns are at the same queue.
func (t turn) isAt(other turn) bool {
	return t.cluster == other.cluster && t.vhost == other.vhost && t.queue == other.queue
}

// to is where each message is published; nil if that depends on the message.
func (m move) to() *contract.Route {
	if m.destination == "" {
		return nil
	}
	return &m.route
}

// is says whether a transfer for one move serves another.
func (m move) is(other move) bool {
	return m.broker == other.broker && m.turn == other.turn && m.destination == other.destination && m.route == other.route &&
		m.limited == other.limited && m.source.Shared == other.source.Shared && m.source.Main == other.source.Main &&
		slices.Equal(m.source.Tiers, other.source.Tiers)
}
