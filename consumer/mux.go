package consumer

import (
	"context"
	"fmt"
)

// Mux handles several types of messages in one queue: pass its Handle method to New.
type Mux struct {
	key      func(*Delivery) string
	handlers map[string]HandleFunc
}

// NewMux makes a Mux that tells messages apart by a key.
func NewMux(key func(*Delivery) string) *Mux {
	return &Mux{key: key, handlers: map[string]HandleFunc{}}
}

// ByType is the property type.
func ByType(d *Delivery) string { return d.Raw.Type }

// ByOriginalRoutingKey is the routing key with which the message was published first.
func ByOriginalRoutingKey(d *Delivery) string { return d.OriginalRoutingKey() }

// AddHandler adds a handler for the messages with a key, and decodes their bodies as JSON; see Decode for others. It panics if the key has
// a handler already. Call it before Run.
func AddHandler[T any](m *Mux, key string, handle Handler[T]) {
	if _, exists := m.handlers[key]; exists {
		panic(fmt.Sprintf("consumer: AddHandler was called twice for %q", key))
	}
	m.handlers[key] = newHandleFunc(decodeJSON[T], handle)
}

// Handle hands a message to the handler of its key. Without one, the message is dead-lettered: no attempt can help.
func (m *Mux) Handle(ctx context.Context, message *Message[[]byte]) error {
	key := m.key(message.Delivery)
	handle, found := m.handlers[key]
	if !found {
		return Permanent(fmt.Errorf("no handler for messages with the key %q", key))
	}
	return handle(ctx, message.Delivery)
}
