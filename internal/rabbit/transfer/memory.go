package transfer

import (
	"fmt"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// skippedTooLarge is why a message is skipped whose body is larger than amqpconn.LargestBody.
const skippedTooLarge = "TooLarge"

// takeWithoutBody takes a message whose body was dropped. If it is too large, it stays for that reason. If there was no room for it, the
// pass ends, and the next one takes fewer messages at a time.
func (p *pass) takeWithoutBody(message *item, size int64, tooLarge bool) error {
	switch {
	case !tooLarge:
		p.hold(message.from, &message.message)
		p.sizes.shrink(size, message.from.prefetch)
		p.shortOfMemory = true
		p.stop(errNoMemory)
		return nil
	case p.look != nil:
		p.hold(message.from, &message.message)
		p.look.seen = max(p.look.seen, p.taken)
	case p.DryRun, p.Delete: // nothing can tell whether it is selected
		p.hold(message.from, &message.message)
		p.skipped[skippedTooLarge]++
	default:
		p.giveUp(message, FailureBodyTooLarge, fmt.Sprintf("its body has %d bytes, and Warren moves messages of up to %d bytes",
			size, amqpconn.LargestBody))
	}
	return p.intake.refill(p.prefetch())
}
