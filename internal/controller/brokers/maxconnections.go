package brokers

import (
	"cmp"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MaxConnections is how many open connections a namespace may have. Users with the right to create BrokerConnections choose the
// brokers, and each connection takes memory, goroutines and sockets of the manager.
const MaxConnections = 64

// ErrTooManyConnections means that a namespace has MaxConnections older connections.
var ErrTooManyConnections = errors.New("too many connections of the namespace")

// makeRoom closes the youngest connection of a namespace that has MaxConnections of them, and enqueues its BrokerConnection. The oldest
// BrokerConnections have the connections, so that a restart of the manager changes nothing. Two connections that are opened at the same
// time may exceed the limit by one.
func (p *Pool) makeRoom(key types.NamespacedName, created time.Time) error {
	count, youngest := p.youngest(key, created)
	switch {
	case count < MaxConnections:
		return nil
	case youngest == key:
		return ErrTooManyConnections
	}
	p.Close(youngest)
	p.sendKey(p.BrokerConnectionEvents, youngest)
	return nil
}

// youngest counts the open connections of the namespace of a BrokerConnection. It returns the key of the newest BrokerConnection. It
// considers the given BrokerConnection, and each BrokerConnection of the namespace with an open connection.
func (p *Pool) youngest(key types.NamespacedName, created time.Time) (count int, youngest types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	youngest = key
	for other, open := range p.open {
		if other.Namespace != key.Namespace {
			continue
		}
		count++
		if cmp.Or(open.created.Compare(created), cmp.Compare(other.Name, youngest.Name)) > 0 {
			youngest, created = other, open.created
		}
	}
	return count, youngest
}
