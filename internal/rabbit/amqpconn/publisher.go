package amqpconn

import (
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Publisher publishes messages on one channel and waits until the broker has confirmed, refused or returned them. It may publish with
// several routing keys concurrently.
type Publisher struct {
	Channel *amqp.Channel

	connection *Conn
	mu         sync.Mutex
	returns    chan amqp.Return
	returned   map[string]bool // the routing keys of returned messages
}

// NewPublisher returns a Publisher for up to the given number of unconfirmed messages. No other code may publish on the channel.
func (c *Conn) NewPublisher(channel *amqp.Channel, messages int) (*Publisher, error) {
	p := &Publisher{Channel: channel, connection: c, returns: make(chan amqp.Return, messages), returned: map[string]bool{}}
	channel.NotifyReturn(p.returns)
	return p, channel.Confirm(false)
}

// Publish publishes messages in one write, and reports for each whether a queue took the message. The result is false if the broker refused
// the message, or if no queue exists for the routing key. Publish waits for the answer without a time limit. If the caller closes the
// socket, Publish fails with amqp.ErrClosed.
func (p *Publisher) Publish(exchange, key string, messages ...amqp.Publishing) ([]bool, error) {
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	write := func() (err error) {
		for i, message := range messages {
			if confirmations[i], err = p.Channel.PublishWithDeferredConfirm(exchange, key, true, false, message); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if len(messages) > 1 {
		err = p.connection.Socket.Together(write)
	} else {
		err = write() // without a second copy of a large body in memory
	}
	if err != nil {
		return nil, err
	}
	taken := make([]bool, len(messages))
	for i, confirmation := range confirmations {
		_ = Timed("basic.publish", func() error { // from the previous answer to this one
			if taken[i] = confirmation.Wait(); p.Channel.IsClosed() {
				return amqp.ErrClosed
			}
			return nil
		})
	}
	switch {
	case p.Channel.IsClosed(): // Wait returns false for this, as for a refusal
		return nil, amqp.ErrClosed
	case p.wasReturned(key):
		return make([]bool, len(messages)), nil
	}
	return taken, nil
}

// wasReturned reports whether the broker returned a message with a routing key. The library delivers a return before its confirm.
func (p *Publisher) wasReturned(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case message, open := <-p.returns:
			if !open {
				return p.returned[key]
			}
			p.returned[message.RoutingKey] = true
		default:
			return p.returned[key]
		}
	}
}
