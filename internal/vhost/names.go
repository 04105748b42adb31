package vhost

// Arguments of queues and exchanges.
const (
	ArgQueueType            = "x-queue-type"
	ArgMessageTTL           = "x-message-ttl"
	ArgExpires              = "x-expires"
	ArgDeliveryLimit        = "x-delivery-limit"
	ArgMaxLength            = "x-max-length"
	ArgMaxLengthBytes       = "x-max-length-bytes"
	ArgOverflow             = "x-overflow"
	ArgSingleActiveConsumer = "x-single-active-consumer"
	ArgInitialGroupSize     = "x-quorum-initial-group-size"
	ArgTargetGroupSize      = "x-quorum-target-group-size"
	ArgLeaderLocator        = "x-queue-leader-locator"
	ArgConsumerTimeout      = "x-consumer-timeout"
	ArgDisconnectedTimeout  = "x-consumer-disconnected-timeout"
	ArgDeadLetterExchange   = "x-dead-letter-exchange"
	ArgDeadLetterRoutingKey = "x-dead-letter-routing-key"
	ArgDeadLetterStrategy   = "x-dead-letter-strategy"
	ArgDelayedRetryType     = "x-delayed-retry-type"
	ArgDelayedRetryMin      = "x-delayed-retry-min"
	ArgDelayedRetryMax      = "x-delayed-retry-max"

	// ArgAlternateExchange names the exchange that receives the messages that an exchange routes to no queue.
	ArgAlternateExchange = "alternate-exchange"
)

// Keys of policies, each with the meaning of the argument of that name.
const (
	KeyMessageTTL           = "message-ttl"
	KeyExpires              = "expires"
	KeyDeliveryLimit        = "delivery-limit"
	KeyMaxLength            = "max-length"
	KeyMaxLengthBytes       = "max-length-bytes"
	KeyOverflow             = "overflow"
	KeyDeadLetterExchange   = "dead-letter-exchange"
	KeyDeadLetterRoutingKey = "dead-letter-routing-key"
	KeyDeadLetterStrategy   = "dead-letter-strategy"
	KeyDelayedRetryType     = "delayed-retry-type"
	KeyDelayedRetryMin      = "delayed-retry-min"
	KeyDelayedRetryMax      = "delayed-retry-max"
	KeyConsumerTimeout      = "consumer-timeout"
	KeyDisconnectedTimeout  = "consumer-disconnected-timeout"
	KeyTargetGroupSize      = "target-group-size"
)

// Values of overflow, the behaviour of a full queue.
const (
	OverflowRejectPublish = "reject-publish"
	OverflowDropHead      = "drop-head"
)

// StrategyAtLeastOnce is the dead-letter strategy that loses no dead letter; see DeadLettersAtLeastOnce.
const StrategyAtLeastOnce = "at-least-once"

// Types of exchanges that every broker has.
const (
	TypeDirect  = "direct"
	TypeFanout  = "fanout"
	TypeTopic   = "topic"
	TypeHeaders = "headers"
)

// Types of queues.
const (
	TypeQuorum  = "quorum"
	TypeClassic = "classic"
	TypeStream  = "stream"
)

// Prefixes of the names of queues and exchanges that Warren declares for itself. A recreation uses PrefixHold, PrefixBacklog, PrefixBack
// and PrefixProbe. PrefixMatch is for the check whether two addresses lead to one broker.
const (
	PrefixHold    = "warren-hold-"
	PrefixBacklog = "warren-backlog-"
	PrefixBack    = "warren-back-"
	PrefixProbe   = "warren-probe-"
	PrefixMatch   = "warren-link-"
)

// OwnPrefixes are all of these prefixes. A ConsumerQueue must not use a name that begins with one of them.
var OwnPrefixes = []string{PrefixHold, PrefixBacklog, PrefixBack, PrefixProbe, PrefixMatch}

// MaxNameLength is the limit of a name or routing key in bytes: a short string of AMQP.
const MaxNameLength = 255
