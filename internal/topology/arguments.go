package topology

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// The arguments of a quorum queue that Warren sets.
const (
	ArgQueueType            = "x-queue-type"
	ArgMessageTTL           = "x-message-ttl"
	ArgDeliveryLimit        = "x-delivery-limit"
	ArgMaxLength            = "x-max-length"
	ArgMaxLengthBytes       = "x-max-length-bytes"
	ArgOverflow             = "x-overflow"
	ArgSingleActiveConsumer = "x-single-active-consumer"
	ArgInitialGroupSize     = "x-quorum-initial-group-size"
	argTargetGroupSize      = "x-quorum-target-group-size" // only as a further argument
	ArgLeaderLocator        = "x-queue-leader-locator"
	ArgConsumerTimeout      = "x-consumer-timeout"
	ArgDeadLetterExchange   = "x-dead-letter-exchange"
	ArgDeadLetterRoutingKey = "x-dead-letter-routing-key"
	ArgDeadLetterStrategy   = "x-dead-letter-strategy"
	ArgDelayedRetryType     = "x-delayed-retry-type"
	ArgDelayedRetryMin      = "x-delayed-retry-min"
	ArgDelayedRetryMax      = "x-delayed-retry-max"
)

// Their values that are not taken from a spec as they are.
const (
	deadLetterAtLeastOnce = "at-least-once"
	overflowRejectPublish = "reject-publish"
	overflowDropHead      = "drop-head"
	delayedRetryAll       = "all"
	queueTypeQuorum       = "quorum"
	unlimitedDeliveries   = int64(-1)
)

// Argument is one row of the table of queue arguments: everything that Desired, Diff, the messages and the reference page
// know of an argument.
type Argument struct {
	// Name at the broker.
	Name string
	// Field of the ConsumerQueue that it comes from, relative to spec.
	Field string
	// Type of its value: int, string or bool.
	Type string
	// Since is the first RabbitMQ whose quorum queues know it.
	Since Version
	// Compared is the first RabbitMQ that compares it when a queue is declared again; Warren always compares.
	Compared Version
}

// ArgumentTable lists the arguments of quorum queues that Warren knows. None of them can be changed on an existing
// queue: whatever differs needs recreation. Sources: RabbitMQ's documentation of quorum queues; what a declare compares
// was tried on 3.10, 4.0 and 4.3.
var ArgumentTable = []Argument{
	{ArgQueueType, "(always quorum)", "string", RabbitMQ310, RabbitMQ310},
	{ArgMessageTTL, "queue.messageTTL, retry.delayTiers[].delay, deadLetter.queue.messageTTL", "int", RabbitMQ310, RabbitMQ310},
	{ArgDeliveryLimit, "queue.deliveryLimit, retry.maxAttempts, deadLetter.queue.deliveryLimit", "int", RabbitMQ310, RabbitMQ310},
	{ArgMaxLength, "queue.maxLength, deadLetter.queue.maxLength", "int", RabbitMQ310, RabbitMQ310},
	{ArgMaxLengthBytes, "queue.maxLengthBytes, deadLetter.queue.maxLengthBytes", "int", RabbitMQ310, RabbitMQ310},
	{ArgOverflow, "queue.overflow, deadLetter.queue.overflow, deadLetterStrategy", "string", RabbitMQ310, RabbitMQ310},
	{ArgSingleActiveConsumer, "queue.singleActiveConsumer", "bool", RabbitMQ310, RabbitMQ310},
	{ArgInitialGroupSize, "queue.initialGroupSize, deadLetter.queue.initialGroupSize", "int", RabbitMQ310, RabbitMQ310},
	{ArgLeaderLocator, "queue.leaderLocator, deadLetter.queue.leaderLocator", "string", RabbitMQ310, RabbitMQ310},
	{ArgConsumerTimeout, "queue.consumerTimeout, deadLetter.queue.consumerTimeout", "int", RabbitMQ312, RabbitMQ43},
	{ArgDeadLetterExchange, "retry.strategy, retry.exchange, retry.returnTo, deadLetter.exchange", "string", RabbitMQ310, RabbitMQ310},
	{ArgDeadLetterRoutingKey, "retry.delayTiers[].routingKey, retry.returnTo, deadLetter.routingKey", "string", RabbitMQ310, RabbitMQ310},
	{ArgDeadLetterStrategy, "deadLetterStrategy", "string", RabbitMQ310, RabbitMQ310},
	{ArgDelayedRetryType, "retry.redeliveryDelay", "string", RabbitMQ43, RabbitMQ43},
	{ArgDelayedRetryMin, "retry.redeliveryDelay.min", "int", RabbitMQ43, RabbitMQ43},
	{ArgDelayedRetryMax, "retry.redeliveryDelay.max", "int", RabbitMQ43, RabbitMQ43},
}

// unsupported names the first argument of a queue that a broker of this version does not know; such a broker would
// store it silently and do nothing.
func unsupported(arguments Arguments, version Version) (Argument, bool) {
	for _, row := range ArgumentTable {
		if _, set := arguments[row.Name]; set && !version.AtLeast(row.Since) {
			return row, true
		}
	}
	return Argument{}, false
}

// fieldOf is the field that an argument of a queue in this role comes from.
func (a Argument) fieldOf(role v1alpha1.Role) string {
	for field := range strings.SplitSeq(a.Field, ", ") {
		if strings.HasPrefix(field, "deadLetter.queue.") == (role == v1alpha1.RoleDeadLetter) {
			return field
		}
	}
	return a.Field
}

// compactDelay renders a delay in milliseconds as it appears in names: normalized, without zeros; 90 minutes are 1h30m.
func compactDelay(milliseconds int64) string {
	var text strings.Builder
	for _, unit := range []struct {
		size   int64
		suffix string
	}{{3600_000, "h"}, {60_000, "m"}, {1000, "s"}, {1, "ms"}} {
		if count := milliseconds / unit.size; count > 0 {
			fmt.Fprintf(&text, "%d%s", count, unit.suffix)
		}
		milliseconds %= unit.size
	}
	return text.String()
}

func milliseconds(duration v1alpha1.Duration) (int64, error) {
	parsed, err := duration.Parse()
	return parsed.Milliseconds(), err
}
