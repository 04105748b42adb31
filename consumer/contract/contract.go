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

// APIVersion is the version of the document. Later releases only add fields to a Contract of this version.
const APIVersion = "contract.warren.dev/v1"

// Strategy is how a failed message gets to its next attempt.
type Strategy string

// These are the strategies of a ConsumerQueue, and StrategyNone for the retry policy None.
const (
	// StrategyPublish: the consumer publishes a copy to a delay tier, waits for the confirm, and acks the original.
	StrategyPublish Strategy = "Publish"
	// StrategyReject: the consumer rejects the message, and the broker dead-letters it to the delay tier.
	StrategyReject Strategy = "Reject"
	// StrategyRequeue: the consumer rejects the message with requeue, and the broker delivers it again until its delivery limit
	// is reached.
	StrategyRequeue Strategy = "Requeue"
	// StrategyNone: a failed message is parked without another attempt.
	StrategyNone Strategy = "None"
)

var strategies = []Strategy{StrategyPublish, StrategyReject, StrategyRequeue, StrategyNone}

// Contract is the contract between a topology and the consumers of its main queue. The zero value is not valid; see Validate.
type Contract struct {
	// APIVersion is contract.warren.dev/v1.
	APIVersion string `json:"apiVersion"`
	// Queue is the main queue, from which messages are consumed.
	Queue string `json:"queue"`
	// VirtualHost is the virtual host of the queue.
	VirtualHost string `json:"virtualHost"`
	// Strategy is how a failed message gets to its next attempt.
	Strategy Strategy `json:"strategy" jsonschema:"enum=Publish,enum=Reject,enum=Requeue,enum=None"`
	// MaxAttempts is the number of attempts in total, including the first one; 1 under None.
	MaxAttempts int `json:"maxAttempts" jsonschema:"minimum=1"`
	// Tiers are the delay tiers, in the order in which a message uses them. Requeue has none, Reject has one.
	Tiers []Tier `json:"tiers,omitempty"`
	// Park is where consumers publish messages that get no further attempt. Without it there is no dead-letter queue, and such
	// messages are dropped.
	Park *Route `json:"park,omitempty"`
	// DeadLetterQueue is the queue of the dead letters; empty if dead-lettering is disabled.
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
	// RejectDeadLetters reports whether the broker dead-letters a rejected message to the dead-letter queue, at least once.
	RejectDeadLetters bool `json:"rejectDeadLetters"`
	// SingleActiveConsumer reports whether only one consumer at a time receives messages.
	SingleActiveConsumer bool `json:"singleActiveConsumer"`
	// ConsumerTimeout is the time after which the broker takes back a message that was not settled, in milliseconds. Without it
	// the broker's default applies, usually 30 minutes.
	ConsumerTimeout *Duration `json:"consumerTimeoutMilliseconds,omitempty" jsonschema:"minimum=1"`
	// RedeliveryDelay is how long the broker waits before it delivers a requeued message again. If it is absent, the broker does not
	// wait.
	RedeliveryDelay *RedeliveryDelay `json:"redeliveryDelay,omitempty"`
	// ConfigMap is the ConfigMap that Warren keeps the contract in, as namespace/name; empty in a contract from elsewhere. A
	// consumer that obeys paused sets the argument x-warren-contract of basic.consume to it.
	ConfigMap string `json:"configMap,omitempty"`
	// Paused asks the consumers to stop consuming, because Warren recreates the queue. Without it they consume.
	Paused *Pause `json:"paused,omitempty"`
}

// ArgConfigMap is the argument of basic.consume that shows Warren from which ConfigMap a consumer reads its contract. Warren asks
// for a pause only if all consumers of the queue have it.
const ArgConfigMap = "x-warren-contract"

// MaxPause is how long consumers pause at most for one Pause.ID, whatever Until is: a clock may be wrong.
const MaxPause = 10 * time.Minute

// Pause asks consumers to stop consuming, to return what they have not handled, and to keep running.
type Pause struct {
	// ID identifies the pause. Another ID is another pause.
	ID string `json:"id"`
	// Until is when the consumers consume again, even if the contract still asks for the pause. It is a time of the operator's clock.
	Until time.Time `json:"until"`
}

// Route is the destination of a published message.
type Route struct {
	// Exchange is empty for the default exchange.
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routingKey"`
}

// Tier is a delay tier: a message that is published there returns to the main queue after the delay.
type Tier struct {
	// Delay is how long a message waits, in milliseconds.
	Delay Duration `json:"delayMilliseconds" jsonschema:"minimum=1"`
	Route
}

// RedeliveryDelay is min × the number of deliveries, but at most max.
type RedeliveryDelay struct {
	// Min is the delay after the first delivery, in milliseconds.
	Min Duration `json:"minMilliseconds"`
	// Max is the longest delay, in milliseconds.
	Max Duration `json:"maxMilliseconds"`
}

// Default returns the contract of a ConsumerQueue with spec: {} and this name, in the virtual host "/".
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

// Parse decodes and validates a contract. It ignores unknown fields.
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

// Validate returns an error for each invalid field, joined. Each error says what to do.
func (c Contract) Validate() error {
	var wrong []error
	refuse := func(format string, arguments ...any) {
		wrong = append(wrong, fmt.Errorf("contract: "+format, arguments...))
	}
	if c.APIVersion != APIVersion {
		refuse("apiVersion is %q, but this version of the library supports only %q: upgrade the library", c.APIVersion, APIVersion)
	}
	if c.Queue == "" {
		refuse("queue is missing: name the main queue")
	}
	if c.VirtualHost == "" {
		refuse(`virtualHost is missing: "/" is RabbitMQ's default`)
	}
	if !slices.Contains(strategies, c.Strategy) {
		refuse("strategy is %q, but this version of the library supports only %q: upgrade the library", c.Strategy, strategies)
	}
	if c.MaxAttempts < 1 {
		refuse("maxAttempts is %d and must be at least 1", c.MaxAttempts)
	}
	c.validateTiers(refuse)
	if c.Park == nil && (c.DeadLetterQueue != "" || c.RejectDeadLetters) {
		refuse("park is missing: name the route to the dead-letter queue, or remove deadLetterQueue and rejectDeadLetters")
	}
	if c.Park != nil && c.Park.Exchange == "" && c.Park.RoutingKey == "" {
		refuse("park.routingKey is missing: the default exchange needs the name of the dead-letter queue")
	}
	if c.Strategy == StrategyReject && c.RejectDeadLetters {
		refuse("rejectDeadLetters must be false under strategy Reject: rejected messages wait in the tier")
	}
	if c.ConsumerTimeout != nil && *c.ConsumerTimeout < Duration(time.Millisecond) {
		refuse("consumerTimeoutMilliseconds is less than 1: name the consumer timeout of the queue, or remove the field")
	}
	if c.Paused != nil && (c.Paused.ID == "" || c.Paused.Until.IsZero()) {
		refuse("paused.id or paused.until is missing: remove paused, or set both")
	}
	return errors.Join(wrong...)
}

func (c Contract) validateTiers(refuse func(format string, arguments ...any)) {
	switch {
	case c.Strategy == StrategyPublish && len(c.Tiers) == 0:
		refuse("tiers are missing: strategy Publish needs at least one")
	case c.Strategy == StrategyReject && len(c.Tiers) != 1:
		refuse("tiers has %d entries: strategy Reject needs exactly one", len(c.Tiers))
	case c.Strategy == StrategyRequeue && len(c.Tiers) != 0:
		refuse("tiers has %d entries: strategy Requeue uses none", len(c.Tiers))
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

// Source provides a contract that may change.
type Source interface {
	// Load returns the current contract. It must return when ctx ends.
	Load(ctx context.Context) (Contract, error)
}

// Load validates and returns the contract.
func (c Contract) Load(context.Context) (Contract, error) { return c, c.Validate() }

// File is the path of a contract. Load reads it again each time, because the operator may change it.
type File string

// Load reads the file. The error is fs.ErrNotExist if the file does not exist.
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
