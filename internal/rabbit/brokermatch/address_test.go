package brokermatch

import (
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/health"
)

// With TLS, the server name can select one of several brokers at an address.
func TestAnAddressWithAServerNameIsNoProof(t *testing.T) {
	place := health.Place{}
	New(Settings{AMQPURI: "amqps://gateway", ServerName: "rabbitmq.shop"}).place(&place, "")
	if place.Address != "" {
		t.Errorf("the address %q counts as a proof", place.Address)
	}
}
