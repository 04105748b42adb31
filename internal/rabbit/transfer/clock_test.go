package transfer

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A message that was published before the broker blocked the connection may be confirmed afterwards.
func TestBlockedUntilTheBrokerTakesMessages(t *testing.T) {
	t.Parallel()
	var reported []State
	p := &pass{
		transfer: &transfer{Config: Config{Report: func(now Progress) { reported = append(reported, now.State) }}}, state: Moving,
	}
	p.setBlocked(amqp.Blocking{Active: true, Reason: "low on memory"})
	p.setState(Moving, "")
	topologytest.Equal(t, "states while blocked", []State{Blocked}, reported)
	p.setBlocked(amqp.Blocking{})
	topologytest.Equal(t, "states", []State{Blocked, Moving}, reported)
}
