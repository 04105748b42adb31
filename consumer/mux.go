package consumer

import (
	"context"
	"fmt"
)

// Mux passes each message of a queue to the handler for its type. Pass its method Handle to New.
type Mux struct {
	key      func(*Delivery) string
	handlers map[string]HandleFunc
}

// NewMux returns a Mux that selects handlers by a key, for example ByType or (*Delivery).OriginalRoutingKey. It panics if key is nil.
func NewMux(key func(*Delivery) string) *Mux {
	if key == nil {
		panic("consumer: NewMux was given nil")
	}
	return &Mux{key: key, handlers: map[string]HandleFunc{}}
}

// ByType returns the property type.
func ByType(d *Delivery) string { return d.Raw.Type }

// AddHandler adds a handler for the messages with a key. Their bodies are decoded as JSON; see Decode for other encodings. It
// must be called before Run. It panics if handle is nil, or if the key already has a handler.
func AddHandler[T any](m *Mux, key string, handle Handler[T]) {
	if handle == nil {
		panic(fmt.Sprintf("consumer: AddHandler was given nil for %q", key))
	}
	if _, exists := m.handlers[key]; exists {
		panic(fmt.Sprintf("consumer: AddHandler was called twice for %q", key))
	}
	m.handlers[key] = newHandleFunc(decodeJSON[T], handle)
}

// Handle calls the handler for the key of a message. If there is none, it returns a Permanent error.
func (m *Mux) Handle(ctx context.Context, message *Message[[]byte]) error {
	key := m.key(message.Delivery)
	handle, found := m.handlers[key]
	if !found {
		return Permanent(fmt.Errorf("no handler for messages with the key %q", key))
	}
	return handle(ctx, message.Delivery)
}
