package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// APIVersion is the version of the document. Later versions of a Contract only gain fields.
const APIVersion = "contract.warren.dev/v1"

// Strategy says how a failed message comes to wait for its next attempt.
type Strategy string

// The strategies of a ConsumerQueue, and StrategyNone for retry.policy None.
const (
	// StrategyPublish: the consumer publishes a copy to a delay tier, waits for the confirm, and acks the original.
	StrategyPublish Strategy = "Publish"
	// StrategyReject: the consumer rejects, and the broker moves the message to the delay tier.
	StrategyReject Strategy = "Reject"
	// StrategyRequeue: the consumer rejects with requeue, and the broker delivers again, until its delivery limit.
	StrategyRequeue Strategy = "Requeue"
	// StrategyNone: a failed message is given up at once.
	StrategyNone Strategy = "None"
)

var strategies = []Strategy{StrategyPublish, StrategyReject, StrategyRequeue, StrategyNone}

// Contract is what the consumers of a main queue keep.
type Contract struct {
	// APIVersion is contract.warren.dev/v1.
	APIVersion string `json:"apiVersion"`
	// Queue is the main queue, which is consumed.
	Queue string `json:"queue"`
	// VirtualHost is where the queue is.
	VirtualHost string `json:"virtualHost"`
	// Strategy says how a failed message comes to wait for its next attempt.
	Strategy Strategy `json:"strategy" jsonschema:"enum=Publish,enum=Reject,enum=Requeue,enum=None"`
	// MaxAttempts is the number of attempts in all, the first one included; 1 under None.
	MaxAttempts int `json:"maxAttempts" jsonschema:"minimum=1"`
	// Tiers are the delay tiers, in the order in which a message uses them. Requeue has none, Reject has one.
	Tiers []Tier `json:"tiers,omitempty"`
	// Park is where messages are published that are given up. Without it there is no dead-letter queue, and what is given up is dropped.
	Park *Route `json:"park,omitempty"`
	// DeadLetterQueue is where dead letters wait; empty where dead-lettering is disabled.
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
	// RejectDeadLetters says that a rejected message goes to the dead-letter queue, at least once.
	RejectDeadLetters bool `json:"rejectDeadLetters"`
	// SingleActiveConsumer says that only one consumer at a time gets messages.
	SingleActiveConsumer bool `json:"singleActiveConsumer"`
	// ConsumerTimeout is the time after which the broker takes back a message that was not settled, in milliseconds. Without it the
	// broker's own timeout holds, 30 minutes by default.
	ConsumerTimeout *Duration `json:"consumerTimeoutMilliseconds,omitempty"`
	// RedeliveryDelay is how long the broker waits until it delivers a requeued message again; without it, it does not wait.
	RedeliveryDelay *RedeliveryDelay `json:"redeliveryDelay,omitempty"`
}

// Route is how a message is published.
type Route struct {
	// Exchange is empty for the default exchange.
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routingKey"`
}

// Tier is a delay tier: what is published there comes back to the main queue after the delay.
type Tier struct {
	// Delay is how long a message waits, in milliseconds.
	Delay Duration `json:"delayMilliseconds" jsonschema:"minimum=1"`
	Route
}

// RedeliveryDelay is min × the number of deliveries, at most max.
type RedeliveryDelay struct {
	// Min is the delay after the first delivery, in milliseconds.
	Min Duration `json:"minMilliseconds"`
	// Max is the longest delay, in milliseconds.
	Max Duration `json:"maxMilliseconds"`
}

// Default is the contract of a ConsumerQueue of that name with spec: {}, in the virtual host "/".
func Default(queue string) Contract {
	c := Contract{
		APIVersion: APIVersion, Queue: queue, VirtualHost: "/", Strategy: StrategyPublish, MaxAttempts: 4,
		Park: &Route{Exchange: queue + ".dlx"}, DeadLetterQueue: queue + ".dlq", RejectDeadLetters: true,
	}
	for _, delay := range []time.Duration{30 * time.Second, 5 * time.Minute, 30 * time.Minute} {
		tier := Duration(delay)
		c.Tiers = append(c.Tiers, Tier{Delay: tier, Route: Route{RoutingKey: queue + ".retry." + tier.String()}})
	}
	return c
}

// Parse reads a contract and validates it. Fields that are unknown here are left out.
func Parse(document []byte) (Contract, error) {
	c := Contract{}
	if err := json.Unmarshal(document, &c); err != nil {
		return Contract{}, fmt.Errorf("read contract: %w", err)
	}
	if err := c.Validate(); err != nil {
		return Contract{}, err
	}
	return c, nil
}

// Validate says what is wrong with a contract: each field, and what to do.
func (c Contract) Validate() error {
	var wrong []error
	refuse := func(format string, arguments ...any) {
		wrong = append(wrong, fmt.Errorf("contract: "+format, arguments...))
	}
	if c.APIVersion != APIVersion {
		refuse("apiVersion is %q and must be %q: use a version of this library that knows it", c.APIVersion, APIVersion)
	}
	if c.Queue == "" {
		refuse("queue is missing: name the main queue")
	}
	if c.VirtualHost == "" {
		refuse(`virtualHost is missing: "/" is RabbitMQ's default`)
	}
	if !slices.Contains(strategies, c.Strategy) {
		refuse("strategy is %q and must be one of %q: use a version of this library that knows it", c.Strategy, strategies)
	}
	if c.MaxAttempts < 1 {
		refuse("maxAttempts is %d and must be at least 1", c.MaxAttempts)
	}
	c.validateTiers(refuse)
	if c.Park != nil && c.Park.Exchange == "" && c.Park.RoutingKey == "" {
		refuse("park.routingKey is missing: the default exchange needs the name of the dead-letter queue")
	}
	if c.Strategy == StrategyReject && c.RejectDeadLetters {
		refuse("rejectDeadLetters cannot be true under strategy Reject: what is rejected waits in the tier")
	}
	return errors.Join(wrong...)
}

func (c Contract) validateTiers(refuse func(format string, arguments ...any)) {
	switch {
	case c.Strategy == StrategyPublish && len(c.Tiers) == 0:
		refuse("tiers are missing, which strategy Publish publishes to")
	case c.Strategy == StrategyReject && len(c.Tiers) != 1:
		refuse("strategy Reject has one tier, not %d", len(c.Tiers))
	case c.Strategy == StrategyRequeue && len(c.Tiers) != 0:
		refuse("strategy Requeue has no tiers, not %d", len(c.Tiers))
	}
	for i, tier := range c.Tiers {
		if tier.Delay < Duration(time.Millisecond) {
			refuse("tiers[%d].delayMilliseconds is missing or less than 1", i)
		}
		if tier.Exchange == "" && tier.RoutingKey == "" {
			refuse("tiers[%d].routingKey is missing: the default exchange needs the name of the tier's queue", i)
		}
	}
}

// Source is where a contract comes from.
type Source interface {
	// Load returns the contract as it is now, before ctx ends.
	Load(ctx context.Context) (Contract, error)
}

// Load returns the contract itself, once it is valid.
func (c Contract) Load(context.Context) (Contract, error) { return c, c.Validate() }

// File is the path of a contract, which is read again at each Load: the operator may write another one.
type File string

// Load reads the file.
func (f File) Load(context.Context) (Contract, error) {
	document, err := os.ReadFile(string(f))
	if err != nil {
		return Contract{}, fmt.Errorf("read contract: %w", err)
	}
	c, err := Parse(document)
	if err != nil {
		return Contract{}, fmt.Errorf("file %q: %w", string(f), err)
	}
	return c, nil
}
