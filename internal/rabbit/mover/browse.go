package mover

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// BrowseConfig describes which messages to browse.
type BrowseConfig struct {
	// Dial opens the AMQP connection of the browse.
	Dial func(context.Context) (*amqpconn.Conn, error)
	Errs brokererr.Errors
	Log  logr.Logger

	// Queue is the queue that messages are taken from and returned to.
	Queue string
	// MaxMessages limits the number of messages. Browse does not take messages that are published after it began.
	MaxMessages int
	// Visit receives the messages with their positions in the queue, and reports whether to continue. The message remains valid after
	// the call.
	Visit func(position int, message *amqp.Delivery) bool

	// limit replaces passLimit, in tests only.
	limit time.Duration
}

// Browsed describes the queue during a browse.
type Browsed struct {
	// Ready is how many messages were ready at the beginning.
	Ready int
	// Unseen is how many of the requested messages did not arrive because other consumers took them.
	Unseen int
	// Examined is how many messages were visited or are too large. A later pass with a smaller prefetch begins again at the head of the
	// queue.
	Examined int
	// TooLarge is how many messages were not visited because their body is larger than amqpconn.LargestBody.
	TooLarge int
	// Consumers is how many other consumers the queue had at the beginning or at the end, whichever is more. Browse cannot see the
	// messages that they hold.
	Consumers int
}

// ErrHeldTooLong ends a browse that has held messages for as long as is safe. RabbitMQ closes the channel of a consumer that holds them
// longer.
var ErrHeldTooLong = errors.New("messages were held for ten minutes")

// Browse takes messages out of a queue and returns them in their order. RabbitMQ counts one more delivery of each message, so the
// queue must not have a delivery limit. When the context ends, Browse returns the messages early and without an error. Errors wrap
// a reason of package brokererr, ErrUnreadable or ErrHeldTooLong. After an error, the visited messages remain valid.
func Browse(ctx context.Context, config BrowseConfig) (Browsed, error) {
	begun := &browse{BrowseConfig: config}
	t := &move{
		Config: Config{
			Dial: config.Dial, Errs: config.Errs, Log: config.Log, Queue: config.Queue, DryRun: true,
			Settings: func() Settings { return Settings{} }, Report: func(Progress) {},
		},
		pace: newPace(Settings{}), failed: map[string]bool{}, browse: begun,
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

// browse is the state of a browse, which is a move that moves no message.
type browse struct {
	BrowseConfig
	found Browsed
	// isCounted: the messages of the queue were counted before the first was taken.
	isCounted bool
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
	found := &p.browse.found
	found.Ready, found.Consumers = max(found.Ready, declared.Messages), max(found.Consumers, declared.Consumers)
	p.bound = p.browse.MaxMessages
	if declared.Messages > 0 { // a queue that is too busy to count reports zero
		p.browse.isCounted = true
		p.bound = min(declared.Messages, p.browse.MaxMessages)
	}
	return nil
}

// countAgain counts the other consumers of the queue at the end. If the pass browses, it also computes how many messages the browse has
// not seen.
func (p *pass) countAgain(ctx context.Context) error {
	if p.browse == nil {
		return p.countOthers(ctx)
	}
	var declared amqp.Queue
	var exists bool
	var err error
	// This pass itself is a consumer of a queue that is too busy to count.
	askUntil(time.Now().Add(cleanupLimit(ctx, answerLimit)), func() bool {
		declared, exists, err = p.declared(p.Queue)
		return err != nil || !exists || p.intake.consumers() == 0 || !isUncounted(declared)
	})
	if err != nil {
		return p.Errs.OfOperation(err)
	}
	if !p.browse.isCounted { // a queue that was too busy to count at the beginning
		p.browse.found.Ready = max(p.browse.found.Ready, p.intake.delivered()+declared.Messages)
	}
	if !p.stopping {
		p.browse.found.Unseen = max(0, min(p.browse.found.Ready, p.browse.MaxMessages)-p.taken)
	}
	p.browse.found.Consumers = max(p.browse.found.Consumers, declared.Consumers-p.intake.consumers())
	return nil
}

// visit passes a message to BrowseConfig.Visit, and stops the pass if Visit returns false. It only counts a message whose body is too
// large.
func (p *pass) visit(message *amqp.Delivery, tooLarge bool) {
	p.browse.found.Ready = max(p.browse.found.Ready, p.taken)
	if p.stopping || p.taken <= p.browse.found.Examined {
		return
	}
	p.browse.found.Examined = p.taken
	switch {
	case tooLarge:
		p.browse.found.TooLarge++
	case !p.browse.Visit(p.taken-1, message):
		p.stop(nil)
	}
}
