package mover

import (
	"fmt"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// skippedTooLarge is the reason to skip a message whose body is larger than amqpconn.LargestBody.
const skippedTooLarge = "TooLarge"

// takeWithoutBody handles a message whose body was dropped. A message that is too large stays in the queue. If the process had no
// memory for the body, the pass ends, and the next pass uses a smaller prefetch.
func (p *pass) takeWithoutBody(message *item, size int64, tooLarge bool) error {
	switch {
	case !tooLarge:
		p.hold(message.from, &message.message)
		p.sizes.shrink(size, message.from.prefetch)
		p.shortOfMemory = true
		p.stop(errNoMemory)
		return nil
	case p.browse != nil:
		p.hold(message.from, &message.message)
		p.browse.seen = max(p.browse.seen, p.taken)
	case p.DryRun, p.Delete: // without the body, Filter cannot decide
		p.hold(message.from, &message.message)
		p.skipped[skippedTooLarge]++
	default:
		p.giveUp(message, FailureBodyTooLarge, fmt.Sprintf("its body has %d bytes, and Warren moves messages of up to %d bytes",
			size, amqpconn.LargestBody))
	}
	return p.intake.refill(p.prefetch())
}
