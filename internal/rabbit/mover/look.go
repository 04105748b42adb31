package mover

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// LookConfig describes which messages to browse.
type LookConfig struct {
	// Dial opens the AMQP connection of the look.
	Dial func(context.Context) (*amqpconn.Conn, error)
	Errs brokererr.Errors
	Log  logr.Logger

	// Queue is the queue that messages are taken from and returned to.
	Queue string
	// Most is the maximum number of messages. Messages published after the beginning are not taken.
	Most int
	// Visit receives the messages in the order of the queue, and reports whether to continue. The message remains valid after the
	// call.
	Visit func(*amqp.Delivery) bool
}

// Looked describes the queue during a look.
type Looked struct {
	// Ready is how many messages were ready at the beginning.
	Ready int
	// Unseen is how many of the wanted messages did not arrive because other consumers took them in the meantime.
	Unseen int
	// Consumers is how many other consumers the queue had at the beginning or at the end, whichever is more. Look cannot see the
	// messages that they hold.
	Consumers int
}

// ErrHeldTooLong ends a look that has held messages for as long as RabbitMQ safely allows a consumer.
var ErrHeldTooLong = errors.New("messages were held for ten minutes")

// Look takes messages out of a queue and returns them in their order. RabbitMQ counts one more delivery of each message, so the
// queue must not have a delivery limit. When the context ends, Look returns the messages early and without an error. Errors are
// those of package brokererr, ErrUnreadable and ErrHeldTooLong. After an error, the visited messages remain valid.
func Look(ctx context.Context, config LookConfig) (Looked, error) {
	begun := &look{LookConfig: config}
	t := &move{
		Config: Config{
			Dial: config.Dial, Errs: config.Errs, Log: config.Log, Queue: config.Queue, DryRun: true,
			Settings: func() Settings { return Settings{} }, Report: func(Progress) {},
		},
		pace: newPace(Settings{}), failed: map[string]bool{}, look: begun,
	}
	for {
		done, err := t.pass(ctx)
		if err == nil && t.shortOfMemory && ctx.Err() == nil {
			t.shortOfMemory = false
			continue
		}
		if err == nil && !done {
			err = ErrHeldTooLong
		}
		return begun.found, err
	}
}

// look is the state of a move that only browses.
type look struct {
	LookConfig
	found Looked
	// seen is how many messages were visited. A later pass with a smaller prefetch begins at the head of the queue again.
	seen int
}

// countReady counts the messages to browse.
func (p *pass) countReady() error {
	declared, exists, err := p.declared(p.Queue)
	switch {
	case err != nil:
		return p.Errs.OfOperation(err)
	case !exists:
		return p.Errs.Fail(brokererr.ErrNotFound, "no queue '%s'", p.Queue)
	}
	p.look.found = Looked{Ready: max(declared.Messages, p.look.found.Ready), Consumers: declared.Consumers}
	p.bound = p.look.Most
	if declared.Messages > 0 { // a queue that is too busy to count reports zero
		p.bound = min(declared.Messages, p.look.Most)
	}
	return nil
}

// countAgain computes how many messages the look has not seen, and counts the consumers of the queue again.
func (p *pass) countAgain() error {
	if p.look == nil {
		return nil
	}
	if !p.stopping {
		p.look.found.Unseen = max(0, min(p.look.found.Ready, p.look.Most)-p.taken)
	}
	declared, _, err := p.declared(p.Queue)
	if err != nil {
		return p.Errs.OfOperation(err)
	}
	p.look.found.Consumers = max(p.look.found.Consumers, declared.Consumers-p.intake.consumers())
	return nil
}

// visit passes a message to LookConfig.Visit, and stops the pass if Visit returns false.
func (p *pass) visit(message *amqp.Delivery) {
	p.look.found.Ready = max(p.look.found.Ready, p.taken)
	if p.stopping || p.taken <= p.look.seen {
		return
	}
	p.look.seen = p.taken
	if !p.look.Visit(message) {
		p.stop(nil)
	}
}
