package vhost

// The arguments of queues and exchanges that Warren knows.
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

	// ArgAlternateExchange names the exchange that gets the messages that an exchange routes to no queue.
	ArgAlternateExchange = "alternate-exchange"
)

// The keys of policies that mean the same as an argument.
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

// The values of overflow: what a full queue does.
const (
	OverflowRejectPublish = "reject-publish"
	OverflowDropHead      = "drop-head"
)

// The types of exchanges that every broker has.
const (
	TypeDirect  = "direct"
	TypeFanout  = "fanout"
	TypeTopic   = "topic"
	TypeHeaders = "headers"
)

// The types of queues.
const (
	TypeQuorum  = "quorum"
	TypeClassic = "classic"
	TypeStream  = "stream"
)

// LongestName is how long a name or routing key can be at most, in bytes: a short string of AMQP.
const LongestName = 255
