package memory

import (
	"slices"
	"strings"

	"github.com/warren-mq/warren/consumer/contract"
)

// binding binds a queue to an exchange.
type binding struct {
	contract.Route

	queue string
}

// Bind declares an exchange and a queue and binds them with a routing key, in which * and # work as in a topic exchange.
func (b *Broker) Bind(exchange, routingKey, queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.declare(queue)
	b.bind(contract.Route{Exchange: exchange, RoutingKey: routingKey}, queue)
}

func (b *Broker) bind(route contract.Route, queue string) {
	b.exchanges[route.Exchange] = true
	if added := (binding{route, queue}); !slices.Contains(b.bindings, added) {
		b.bindings = append(b.bindings, added)
	}
}

// DeleteExchange deletes an exchange and its bindings.
func (b *Broker) DeleteExchange(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.exchanges, name)
	b.bindings = slices.DeleteFunc(b.bindings, func(bound binding) bool { return bound.Exchange == name })
}

// route returns the queues that receive a message, in the order of their first binding.
func (b *Broker) route(exchange, routingKey string) (queues []*queue) {
	if exchange == "" {
		if q := b.queues[routingKey]; q != nil {
			return []*queue{q}
		}
		return nil
	}
	for _, bound := range b.bindings {
		q := b.queues[bound.queue]
		if q != nil && bound.Exchange == exchange && matches(words(bound.RoutingKey), words(routingKey)) && !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
	}
	return queues
}

func words(routingKey string) []string {
	if routingKey == "" {
		return nil
	}
	return strings.Split(routingKey, ".")
}

// matches reports whether a topic exchange routes a key to a binding. In the binding, * is one word and # is any number of words.
func matches(binding, key []string) bool {
	switch {
	case len(binding) == 0:
		return len(key) == 0
	case binding[0] == "#":
		return matches(binding[1:], key) || len(key) > 0 && matches(binding, key[1:])
	}
	return len(key) > 0 && (binding[0] == "*" || binding[0] == key[0]) && matches(binding[1:], key[1:])
}
