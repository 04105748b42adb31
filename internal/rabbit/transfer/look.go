package transfer

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// LookConfig says what to look at.
type LookConfig struct {
	// Dial opens the AMQP connection of the look.
	Dial func(context.Context) (*amqpconn.Conn, error)
	Errs brokererr.Errors
	Log  logr.Logger

	// Queue is where messages are taken from, and given back to.
	Queue string
	// Most is how many messages are taken at most. Those that come after the beginning are not taken.
	Most int
	// Visit is given the messages in the order of the queue, and says whether to go on. The message is valid after the call, too.
	Visit func(*amqp.Delivery) bool
}

// Looked is what a look found besides the messages.
type Looked struct {
	// Ready is how many messages waited for a consumer at the beginning.
	Ready int
	// Unseen is how many of them were wanted and did not come: others took them meanwhile.
	Unseen int
	// Consumers is how many others consumed the queue at the beginning or at the end, whichever is more. Messages that they hold cannot be
	// seen.
	Consumers int
}

// ErrHeldTooLong ends a look that has held messages for as long as RabbitMQ lets consumers do without risk.
var ErrHeldTooLong = errors.New("messages were held for ten minutes")

// Look takes messages out of a queue and gives them back in their order. RabbitMQ counts one delivery more of each: the queue must not
// limit deliveries. It ends early, and gives back what it has, when the context does, which is no error. The error may be one of package
// brokererr, ErrUnreadable or ErrHeldTooLong; what was visited before is valid.
func Look(ctx context.Context, config LookConfig) (Looked, error) {
	begun := &look{LookConfig: config}
	t := &transfer{
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

// look is what a transfer has that only looks.
type look struct {
	LookConfig
	found Looked
	// seen is how many messages were visited. Another pass, which takes fewer at a time, begins at the head of the queue again.
	seen int
}

// countReady finds out how many messages there are to look at.
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
	if declared.Messages > 0 { // a queue that is too busy to count says zero
		p.bound = min(declared.Messages, p.look.Most)
	}
	return nil
}

// countAgain compares what a look saw with what there was at its beginning, and counts the consumers of the queue.
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

// visit shows a message, and ends the look when enough was seen.
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
