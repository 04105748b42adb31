package deadletter

import (
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
)

// The reasons why a message is in a dead-letter queue. The broker reports all except Parked in the header x-death.
const (
	// Rejected: a consumer rejected the message.
	Rejected v1alpha1.DeadLetterReason = "Rejected"
	// Expired: the message reached the TTL of its queue or its own expiration.
	Expired v1alpha1.DeadLetterReason = "Expired"
	// MaxLength: the queue was full.
	MaxLength v1alpha1.DeadLetterReason = "MaxLength"
	// DeliveryLimit: the message was delivered more often than its queue allows.
	DeliveryLimit v1alpha1.DeadLetterReason = "DeliveryLimit"
	// Parked: a consumer published the message to the dead-letter queue.
	Parked v1alpha1.DeadLetterReason = "Parked"
)

// brokerReasons translates the reasons in x-death. See https://www.rabbitmq.com/docs/dlx#effects.
var brokerReasons = map[string]v1alpha1.DeadLetterReason{
	"rejected": Rejected, "expired": Expired, "maxlen": MaxLength, "delivery_limit": DeliveryLimit,
}

// Source is the ConsumerQueue whose dead letters are read.
type Source struct {
	// Main is the main queue.
	Main string
	// Tiers are the queues of the delay tiers. Messages that expire there return to the main queue.
	Tiers []string
	// Shared is true if other ConsumerQueues use the same dead-letter queue.
	Shared bool
}

// Origin is the route of a message before it came to the dead-letter queue.
type Origin struct {
	// Queue is where the message died, or the main queue of the consumer that parked it; empty if unknown.
	Queue string
	// Exchange and RoutingKey are the first route of the message. Routed is true if they are known.
	Exchange, RoutingKey string
	Routed               bool
	// DiedAt is when the message first died in Queue; zero if unknown. RabbitMQ keeps the time of the first death of a message in a
	// queue. For a parked message it is the time of the failure, if the consumer recorded it.
	DiedAt time.Time
}

// Message is a dead letter with the information in its headers.
type Message struct {
	*amqp.Delivery
	Reason v1alpha1.DeadLetterReason
	Origin Origin
	// Redrives is how often the message was moved back before.
	Redrives int
	// Size is the length of the body in bytes. A body that was too large to read is missing.
	Size int64
}

// Read interprets the headers of a message in the source's dead-letter queue.
func (s Source) Read(message *amqp.Delivery) Message {
	return s.ReadWithSize(message, int64(len(message.Body)))
}

// ReadWithSize is Read for a message whose body may be missing. size is the length of the body.
func (s Source) ReadWithSize(message *amqp.Delivery, size int64) Message {
	deadLetter := Message{Delivery: message, Reason: Parked, Redrives: contract.Redrives(message.Headers), Size: size}
	deadLetter.Origin.Queue = firstQueueName(message.Headers, contract.HeaderFailureQueue, HeaderOriginQueue)
	if last, died := lastDeath(message.Headers); died {
		deadLetter.Origin.Queue, deadLetter.Origin.DiedAt = last.queue, last.at
		if !slices.Contains(s.Tiers, last.queue) { // a consumer parked the message after it was in a tier
			deadLetter.Reason = last.reason
		}
	}
	if failed := failureTime(message.Headers); deadLetter.Reason == Parked && !failed.IsZero() {
		deadLetter.Origin.DiedAt = failed
	}
	deadLetter.Origin.Exchange, deadLetter.Origin.RoutingKey, deadLetter.Origin.Routed = s.originalRoute(message.Headers)
	return deadLetter
}

// failureTime returns when a consumer parked a message; zero if the consumer did not record it.
func failureTime(headers amqp.Table) time.Time {
	text, _ := headers[contract.HeaderFailureTime].(string)
	at, _ := time.Parse(time.RFC3339, text) // zero on an error
	return at
}

// comesFrom reports whether a message died in a queue of this ConsumerQueue.
func (s Source) comesFrom(origin Origin) bool {
	return origin.Queue == s.Main || slices.Contains(s.Tiers, origin.Queue)
}

// originalRoute returns the exchange and key to which a message was first published. An earlier Redrive or the consumer may have
// recorded it. Otherwise it is the route before the first death in the main queue, unless the message was a copy from a tier.
func (s Source) originalRoute(headers amqp.Table) (exchange, key string, known bool) {
	for _, kept := range [][2]string{
		{HeaderOriginExchange, HeaderOriginRoutingKey},
		{contract.HeaderOriginalExchange, contract.HeaderOriginalRoutingKey},
	} {
		exchange, hasExchange := headers[kept[0]].(string)
		key, hasKey := headers[kept[1]].(string)
		if hasExchange && hasKey {
			return exchange, key, true
		}
	}
	for _, d := range deaths(headers) {
		if d.queue == s.Main && d.routed {
			return d.exchange, d.key, true
		}
	}
	return "", "", false
}

// death is an entry of x-death: the first death of a message in a queue for a reason.
type death struct {
	queue         string
	reason        v1alpha1.DeadLetterReason
	at            time.Time
	exchange, key string
	routed        bool
}

// lastDeath returns the last death of a message, which RabbitMQ puts first.
func lastDeath(headers amqp.Table) (death, bool) {
	all := deaths(headers)
	if len(all) == 0 {
		return death{}, false
	}
	return all[0], true
}

// DiedIn reports whether one of the queues dead-lettered a message.
func DiedIn(headers amqp.Table, queues []string) bool {
	return slices.ContainsFunc(deaths(headers), func(d death) bool { return slices.Contains(queues, d.queue) })
}

// deaths parses x-death. It ignores entries that RabbitMQ would not write, because any client can write the header.
func deaths(headers amqp.Table) []death {
	entries, _ := headers[headerDeath].([]any)
	found := make([]death, 0, len(entries))
	for _, entry := range entries {
		fields, _ := entry.(amqp.Table)
		queue, _ := fields["queue"].(string)
		word, _ := fields["reason"].(string)
		reason, known := brokerReasons[word]
		if !isQueueName(queue) || !known {
			continue
		}
		d := death{queue: queue, reason: reason}
		if at, _ := fields["time"].(time.Time); isWritable(at) {
			d.at = at
		}
		if keys, _ := fields["routing-keys"].([]any); len(keys) > 0 {
			exchange, hasExchange := fields["exchange"].(string)
			key, hasKey := keys[0].(string)
			d.exchange, d.key, d.routed = exchange, key, hasExchange && hasKey
		}
		found = append(found, d)
	}
	return found
}

// isWritable reports whether RFC 3339 can express a time. AMQP has times of all years.
func isWritable(at time.Time) bool {
	year := at.UTC().Year()
	return year >= 1 && year <= 9999
}

// maxQueueName is the limit of AMQP for the name of a queue, in bytes.
const maxQueueName = 255

// isQueueName reports whether a queue can have this name. Any client can write longer texts into headers.
func isQueueName(text string) bool { return text != "" && len(text) <= maxQueueName }

// firstQueueName returns the first name of a queue among some headers; empty if there is none.
func firstQueueName(headers amqp.Table, names ...string) string {
	for _, name := range names {
		if text, _ := headers[name].(string); isQueueName(text) {
			return text
		}
	}
	return ""
}
