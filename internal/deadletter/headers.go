package deadletter

import (
	"maps"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// TypeAMQP10 is the type that RabbitMQ gives a message of AMQP 1.0 whose sections it cannot translate into AMQP 0-9-1.
const TypeAMQP10 = "amqp-1.0"

// Headers that a Redrive sets on each moved message. Their values are simple types, because application properties of AMQP 1.0
// support no others.
const (
	// HeaderRedriveID is the UID of the Redrive, and HeaderRedriveName its namespace/name.
	HeaderRedriveID   = "x-warren-redrive-id"
	HeaderRedriveName = "x-warren-redrive-name"
	// HeaderRedriveBy, HeaderRedriveReason and HeaderRedriveAt are the user, the user's reason, and the time of the move.
	HeaderRedriveBy     = "x-warren-redrive-by"
	HeaderRedriveReason = "x-warren-redrive-reason"
	HeaderRedriveAt     = "x-warren-redrive-at"
	// HeaderRedriveFrom is the dead-letter queue.
	HeaderRedriveFrom = "x-warren-redrive-from"
	// HeaderRedriveSeq numbers the messages of one run of a Redrive.
	HeaderRedriveSeq = "x-warren-redrive-seq"
)

// Headers that the first Redrive of a message sets, and that later Redrives keep.
const (
	HeaderOriginExchange   = "x-warren-origin-exchange"
	HeaderOriginRoutingKey = "x-warren-origin-routing-key"
	HeaderOriginQueue      = "x-warren-origin-queue"
	HeaderOriginReason     = "x-warren-origin-reason"
	HeaderOriginTime       = "x-warren-origin-time"
	HeaderOriginCC         = "x-warren-origin-cc"
	HeaderOriginUserID     = "x-warren-origin-user-id"
)

const (
	headerDeath         = "x-death"
	headerDeliveryCount = "x-delivery-count"
	headerAcquiredCount = "x-acquired-count"
	headerCC            = "CC"
	// RabbitMQ 4.4 delays a message until headerDeliveryTime, unless a consumer requests its headerDeferralToken. Both headers
	// survive dead-lettering.
	headerDeliveryTime  = "x-opt-delivery-time"
	headerDeferralToken = "x-opt-deferral-token"
)

// prefixFailure is the prefix of the headers in which Warren's consumers describe a failure.
const prefixFailure = "x-failure-"

// RedriveHeaders holds the values of the headers that a Redrive sets and removes on each message.
type RedriveHeaders struct {
	// ID is the UID of the Redrive, Name its namespace/name.
	ID, Name string
	// By is the user who requested the Redrive, Reason the user's reason. Either may be empty.
	By, Reason string
	// From is the dead-letter queue.
	From string
	// Remove lists additional headers to remove.
	Remove []string
}

// Copy returns the message to publish for a dead letter. at is the time of the move, seq its number in this run. The copy lacks user-id and
// direct reply-to, because the broker would refuse them, and expiration, because the copy would expire.
func (s RedriveHeaders) Copy(deadLetter Message, at time.Time, seq int64) amqp.Publishing {
	replyTo := deadLetter.ReplyTo
	if strings.HasPrefix(replyTo, directReplyTo) {
		replyTo = ""
	}
	return amqp.Publishing{
		Headers: s.headers(deadLetter, at, seq), DeliveryMode: amqp.Persistent, Body: deadLetter.Body,
		ContentType: deadLetter.ContentType, ContentEncoding: deadLetter.ContentEncoding, Priority: deadLetter.Priority,
		CorrelationId: deadLetter.CorrelationId, ReplyTo: replyTo, MessageId: deadLetter.MessageId, Timestamp: deadLetter.Timestamp,
		Type: deadLetter.Type, AppId: deadLetter.AppId,
	}
}

// directReplyTo is the name prefix of the pseudo-queues of direct reply-to. RabbitMQ refuses a message that names one without a
// consumer.
const directReplyTo = "amq.rabbitmq.reply-to"

// headers returns the headers of a copy. It removes headers that would delay the copy, and headers about past attempts. Consumers that
// count attempts by x-death would dead-letter the copy immediately. RabbitMQ 3.10 also continues the counts in a client's x-death.
func (s RedriveHeaders) headers(deadLetter Message, at time.Time, seq int64) amqp.Table {
	headers := amqp.Table(contract.CopyHeaders(deadLetter.Headers))
	left := []string{
		contract.HeaderRetryCount, contract.HeaderDeferCount, contract.HeaderCopyID, headerDeliveryTime, headerDeferralToken,
	}
	for _, name := range append(left, s.Remove...) {
		delete(headers, name)
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool { return strings.HasPrefix(name, prefixFailure) })
	setOrigin(headers, deadLetter)
	setOriginalRoute(headers, deadLetter.Origin)
	headers[HeaderRedriveID], headers[HeaderRedriveName], headers[HeaderRedriveFrom] = s.ID, s.Name, s.From
	headers[HeaderRedriveAt], headers[HeaderRedriveSeq] = at.UTC().Format(time.RFC3339), seq
	headers[contract.HeaderRedriveCount] = min(int64(deadLetter.Redrives)+1, math.MaxInt32) // a larger number is read as 0
	set(headers, HeaderRedriveBy, s.By)
	set(headers, HeaderRedriveReason, s.Reason)
	return headers
}

// setOrigin records the origin of the message, which the removed headers contained. It keeps the record of an earlier Redrive.
func setOrigin(headers amqp.Table, deadLetter Message) {
	if _, kept := headers[HeaderOriginReason]; kept {
		return
	}
	headers[HeaderOriginReason] = string(deadLetter.Reason)
	set(headers, HeaderOriginQueue, deadLetter.Origin.Queue)
	set(headers, HeaderOriginUserID, deadLetter.UserId)
	set(headers, HeaderOriginCC, joined(deadLetter.Headers[headerCC]))
	if deadLetter.Origin.Routed {
		headers[HeaderOriginExchange], headers[HeaderOriginRoutingKey] = deadLetter.Origin.Exchange, deadLetter.Origin.RoutingKey
	}
	if !deadLetter.Origin.DiedAt.IsZero() {
		headers[HeaderOriginTime] = deadLetter.Origin.DiedAt.UTC().Format(time.RFC3339)
	}
}

// setOriginalRoute records for consumers where the producer published the message, because the copy has another route. It keeps the record
// of a consumer.
func setOriginalRoute(headers amqp.Table, origin Origin) {
	_, hasExchange := headers[contract.HeaderOriginalExchange]
	_, hasKey := headers[contract.HeaderOriginalRoutingKey]
	if origin.Routed && !hasExchange && !hasKey {
		headers[contract.HeaderOriginalExchange], headers[contract.HeaderOriginalRoutingKey] = origin.Exchange, origin.RoutingKey
	}
}

// set sets a header, or removes it if the value is empty, so that no value of an earlier Redrive remains.
func set(headers amqp.Table, name, value string) {
	if value == "" {
		delete(headers, name)
		return
	}
	headers[name] = value
}

// joined returns the routing keys of a CC header, separated by commas.
func joined(cc any) string {
	list, _ := cc.([]any)
	keys := make([]string, 0, len(list))
	for _, item := range list {
		if key, ok := item.(string); ok {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ",")
}
