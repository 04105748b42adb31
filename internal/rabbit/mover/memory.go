package mover

import (
	"fmt"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// SkippedTooLarge is the reason why a dry run or a deletion skips a message whose body is larger than amqpconn.LargestBody.
const SkippedTooLarge = "TooLarge"

// holdTooLarge handles a message to move or delete whose body is too large. The message stays in the queue.
func (p *pass) holdTooLarge(message *item, size int64) {
	if p.DryRun || p.Delete {
		p.hold(message.from, &message.message)
		p.skipped[SkippedTooLarge]++
		return
	}
	p.giveUp(message, FailureBodyTooLarge, fmt.Sprintf("its body has %d bytes, and Warren moves messages of up to %d bytes",
		size, amqpconn.LargestBody))
}

// stopWithoutMemory ends the pass, because the process had no memory for a message. The next pass uses a smaller prefetch.
func (p *pass) stopWithoutMemory(message *item, size int64) {
	p.hold(message.from, &message.message)
	p.sizes.shrink(size, message.from.prefetch)
	p.shortOfMemory = true
	p.stop(errNoMemory)
}
