package topology

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Values of arguments that do not come from a spec.
const (
	delayedRetryAll = "all"

	// DelayedRetryDisabled is the x-delayed-retry-type of a queue that redelivers immediately, which is also the default.
	DelayedRetryDisabled = "disabled"

	// UnlimitedDeliveries is the x-delivery-limit of a queue without a limit, from RabbitMQ 4.0 on.
	UnlimitedDeliveries = int64(-1)

	// BrokerDeliveryLimit is RabbitMQ's default delivery limit of a quorum queue, from RabbitMQ 4.0 on.
	BrokerDeliveryLimit = int64(20)
)

// Argument describes a queue argument. Desired, Diff, messages, advisories about policies and the reference page all use this
// description.
type Argument struct {
	// Name at the broker.
	Name string
	// Field of the ConsumerQueue that sets the argument, relative to spec.
	Field string
	// Type of the value: int, string or bool.
	Type string
	// Since is the first RabbitMQ whose quorum queues support the argument.
	Since vhost.Version
	// Compared is the first RabbitMQ that compares the argument when a queue is declared again. Warren always compares it.
	Compared vhost.Version
	// PolicyKey is the key of a policy with the same meaning; empty if there is none. Combine names which of the two wins.
	PolicyKey string
	Combine   Combine

	// value computes the argument from the settings of a main or dead-letter queue. It returns nil if they do not set the argument. value
	// itself is nil if the argument depends on more than these settings.
	value func(v1alpha1.QueueSettings) (any, error)
}

// Combine names which of an argument and a policy wins.
type Combine int

// The ways in which RabbitMQ combines an argument with a policy. Sources: RabbitMQ documentation; measurements for overflow and
// delivery-limit; the source of 4.3.6 for timeouts, delays and the group size.
const (
	ArgumentWins Combine = iota
	PolicyWins
	LowerWins
	HigherWins
)

// ArgumentTable lists the arguments of quorum queues that Warren supports. RabbitMQ cannot change any of them on an existing
// queue, so a difference requires recreation. Sources: RabbitMQ's documentation of quorum queues; measurements on 3.10, 4.0 and
// 4.3 of what a declaration compares.
var ArgumentTable = []Argument{
	{
		Name: vhost.ArgQueueType, Field: "(always quorum)", Type: "string", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		value: func(v1alpha1.QueueSettings) (any, error) { return vhost.TypeQuorum, nil },
	},
	{
		Name: vhost.ArgMessageTTL, Type: "int", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "queue.messageTTL, retry.delayTiers[].delay, deadLetter.queue.messageTTL",
		PolicyKey: vhost.KeyMessageTTL, Combine: LowerWins,
		value: func(settings v1alpha1.QueueSettings) (any, error) { return durationValue(settings.MessageTTL) },
	},
	{
		Name: vhost.ArgDeliveryLimit, Type: "int", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "queue.deliveryLimit, retry.maxAttempts, deadLetter.queue.deliveryLimit",
		PolicyKey: vhost.KeyDeliveryLimit, Combine: LowerWins,
	},
	{
		Name: vhost.ArgMaxLength, Type: "int", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "queue.maxLength, deadLetter.queue.maxLength",
		PolicyKey: vhost.KeyMaxLength, Combine: LowerWins,
		value: func(settings v1alpha1.QueueSettings) (any, error) { return intValue(settings.MaxLength), nil },
	},
	{
		Name: vhost.ArgMaxLengthBytes, Type: "int", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "queue.maxLengthBytes, deadLetter.queue.maxLengthBytes",
		PolicyKey: vhost.KeyMaxLengthBytes, Combine: LowerWins,
		value: func(settings v1alpha1.QueueSettings) (any, error) {
			if settings.MaxLengthBytes == nil {
				return nil, nil
			}
			return settings.MaxLengthBytes.Value(), nil
		},
	},
	{
		Name: vhost.ArgOverflow, Type: "string", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "queue.overflow, deadLetter.queue.overflow, deadLetterStrategy",
		PolicyKey: vhost.KeyOverflow, Combine: PolicyWins,
		value: func(settings v1alpha1.QueueSettings) (any, error) { return overflows[settings.Overflow], nil },
	},
	{
		Name: vhost.ArgSingleActiveConsumer, Type: "bool", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field: "queue.singleActiveConsumer",
	},
	{
		Name: vhost.ArgInitialGroupSize, Type: "int", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field: "queue.initialGroupSize, deadLetter.queue.initialGroupSize",
		value: func(settings v1alpha1.QueueSettings) (any, error) { return intValue(settings.InitialGroupSize), nil },
	},
	{
		Name: vhost.ArgLeaderLocator, Type: "string", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field: "queue.leaderLocator, deadLetter.queue.leaderLocator",
		value: func(settings v1alpha1.QueueSettings) (any, error) { return leaderLocators[settings.LeaderLocator], nil },
	},
	{
		Name: vhost.ArgConsumerTimeout, Type: "int", Since: vhost.RabbitMQ312, Compared: vhost.RabbitMQ43,
		Field:     "queue.consumerTimeout, deadLetter.queue.consumerTimeout",
		PolicyKey: vhost.KeyConsumerTimeout, Combine: LowerWins,
		value: func(settings v1alpha1.QueueSettings) (any, error) { return durationValue(settings.ConsumerTimeout) },
	},
	{
		Name: vhost.ArgDeadLetterExchange, Type: "string", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "retry.strategy, retry.exchange, retry.returnTo, deadLetter.exchange",
		PolicyKey: vhost.KeyDeadLetterExchange, Combine: ArgumentWins,
	},
	{
		Name: vhost.ArgDeadLetterRoutingKey, Type: "string", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "retry.delayTiers[].routingKey, retry.returnTo, deadLetter.routingKey",
		PolicyKey: vhost.KeyDeadLetterRoutingKey, Combine: ArgumentWins,
	},
	{
		Name: vhost.ArgDeadLetterStrategy, Type: "string", Since: vhost.RabbitMQ310, Compared: vhost.RabbitMQ310,
		Field:     "deadLetterStrategy",
		PolicyKey: vhost.KeyDeadLetterStrategy, Combine: ArgumentWins,
	},
	{
		Name: vhost.ArgDelayedRetryType, Type: "string", Since: vhost.RabbitMQ43, Compared: vhost.RabbitMQ43,
		Field:     "retry.redeliveryDelay",
		PolicyKey: vhost.KeyDelayedRetryType, Combine: PolicyWins,
	},
	{
		Name: vhost.ArgDelayedRetryMin, Type: "int", Since: vhost.RabbitMQ43, Compared: vhost.RabbitMQ43,
		Field:     "retry.redeliveryDelay.min",
		PolicyKey: vhost.KeyDelayedRetryMin, Combine: LowerWins,
	},
	{
		Name: vhost.ArgDelayedRetryMax, Type: "int", Since: vhost.RabbitMQ43, Compared: vhost.RabbitMQ43,
		Field:     "retry.redeliveryDelay.max",
		PolicyKey: vhost.KeyDelayedRetryMax, Combine: LowerWins,
	},
}

// FreeArguments lists arguments that policies can set and that have no field in a ConsumerQueue. A spec may set the last two in
// queue.arguments.
var FreeArguments = []Argument{
	{Name: vhost.ArgExpires, PolicyKey: vhost.KeyExpires, Combine: PolicyWins},
	{Name: vhost.ArgDisconnectedTimeout, PolicyKey: vhost.KeyDisconnectedTimeout, Combine: LowerWins},
	{Name: vhost.ArgTargetGroupSize, PolicyKey: vhost.KeyTargetGroupSize, Combine: HigherWins},
}

// overflows and leaderLocators translate values of a spec to values of the broker. The empty value sets nothing.
var (
	overflows = map[v1alpha1.Overflow]any{
		v1alpha1.OverflowRejectPublish: vhost.OverflowRejectPublish, v1alpha1.OverflowDropHead: vhost.OverflowDropHead,
	}
	leaderLocators = map[v1alpha1.LeaderLocator]any{
		v1alpha1.LeaderLocatorBalanced: "balanced", v1alpha1.LeaderLocatorClientLocal: "client-local",
	}
)

func intValue[T ~int32 | ~int64](given *T) any {
	if given == nil {
		return nil
	}
	return int64(*given)
}

func durationValue(given v1alpha1.Duration) (any, error) {
	if given == "" {
		return nil, nil
	}
	return milliseconds(given)
}

// settingsArguments returns the arguments that depend only on the settings of a main or dead-letter queue.
func settingsArguments(settings v1alpha1.QueueSettings) (vhost.Arguments, error) {
	arguments := specArguments(settings.Arguments)
	if arguments == nil {
		arguments = vhost.Arguments{}
	}
	for _, row := range ArgumentTable {
		if row.value == nil {
			continue
		}
		value, err := row.value(settings)
		if err != nil {
			return nil, &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}
		}
		if value != nil {
			arguments[row.Name] = value
		}
	}
	return arguments, nil
}

// unsupported returns the first argument that a broker of this version does not support. Such a broker stores the argument and
// silently ignores it.
func unsupported(arguments vhost.Arguments, version vhost.Version) (Argument, bool) {
	for _, row := range ArgumentTable {
		if _, set := arguments[row.Name]; set && !version.AtLeast(row.Since) {
			return row, true
		}
	}
	return Argument{}, false
}

// fieldOf returns the field that sets the argument for a queue in this role.
func (a Argument) fieldOf(role v1alpha1.Role) string {
	for field := range strings.SplitSeq(a.Field, ", ") {
		if strings.HasPrefix(field, "deadLetter.queue.") == (role == v1alpha1.RoleDeadLetter) {
			return field
		}
	}
	return a.Field
}

// CompactDelay formats milliseconds as in the names of delay tiers: without zeros, so that 90 minutes are 1h30m.
func CompactDelay(milliseconds int64) string {
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
