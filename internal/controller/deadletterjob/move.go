package deadletterjob

import (
	"slices"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/deadletter"
)

// Move says where messages are taken from and where they go.
type Move struct {
	Broker  brokers.Broker
	Cluster string
	Turn    Turn
	// ConsumerQueue is the name of the ConsumerQueue, and Source tells its dead letters.
	ConsumerQueue string
	Source        deadletter.Source
	// Destination is empty if each message goes where it was published first, or nowhere.
	Destination string
	Route       contract.Route
	// Behind is the queue that messages come to when their delay in Destination is over; empty if they stay there.
	Behind string
	// Limited: the queue may lose messages that are given back.
	Limited bool
}

// To is where each message is published; nil if that depends on the message.
func (m Move) To() *contract.Route {
	if m.Destination == "" {
		return nil
	}
	return &m.Route
}

// is says whether a transfer for one move serves another.
func (m Move) is(other Move) bool {
	return m.Broker == other.Broker && m.Turn == other.Turn && m.Destination == other.Destination && m.Route == other.Route &&
		m.Behind == other.Behind && m.Limited == other.Limited &&
		m.Source.Shared == other.Source.Shared && m.Source.Main == other.Source.Main &&
		slices.Equal(m.Source.Tiers, other.Source.Tiers)
}
