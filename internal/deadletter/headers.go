package deadletter

import (
	"maps"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// Headers that a Redrive sets on each message that it moves. All hold plain values: AMQP 1.0 knows no others in its application
// properties.
const (
	// HeaderRedriveID is the UID of the Redrive, and HeaderRedriveName its namespace and name.
	HeaderRedriveID   = "x-warren-redrive-id"
	HeaderRedriveName = "x-warren-redrive-name"
	// HeaderRedriveBy, HeaderRedriveReason and HeaderRedriveAt say who asked, why, and when the message was moved.
	HeaderRedriveBy     = "x-warren-redrive-by"
	HeaderRedriveReason = "x-warren-redrive-reason"
	HeaderRedriveAt     = "x-warren-redrive-at"
	// HeaderRedriveFrom is the dead-letter queue.
	HeaderRedriveFrom = "x-warren-redrive-from"
	// HeaderRedriveSeq numbers what one run of a Redrive publishes.
	HeaderRedriveSeq = "x-warren-redrive-seq"
)

// Headers that the first Redrive of a message sets, and that later ones keep.
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
	// RabbitMQ 4.4 holds a message back until headerDeliveryTime, unless a consumer asks for its headerDeferralToken. Both survive
	// dead-lettering.
	headerDeliveryTime  = "x-opt-delivery-time"
	headerDeferralToken = "x-opt-deferral-token"
)

// prefixFailure begins the headers in which Warren's consumers tell of a failure.
const prefixFailure = "x-failure-"

// Stamp is what a Redrive writes on each message that it moves.
type Stamp struct {
	// ID is the UID of the Redrive, Name its namespace/name.
	ID, Name string
	// By and Reason are who asked, and why; either may be empty.
	By, Reason string
	// From is the dead-letter queue.
	From string
	// Remove are further headers that are not moved along.
	Remove []string
}

// Copy is a dead letter as it is published again, at a time, as the seq-th of a run. Properties stay, except those with which the
// message could not be published or would expire: user-id, expiration, and a reply-to of RabbitMQ's direct reply-to, whose consumer no
// longer exists.
func (s Stamp) Copy(letter Letter, at time.Time, seq int64) amqp.Publishing {
	replyTo := letter.ReplyTo
	if strings.HasPrefix(replyTo, directReplyTo) {
		replyTo = ""
	}
	return amqp.Publishing{
		Headers: s.headers(letter, at, seq), DeliveryMode: amqp.Persistent, Body: letter.Body,
		ContentType: letter.ContentType, ContentEncoding: letter.ContentEncoding, Priority: letter.Priority,
		CorrelationId: letter.CorrelationId, ReplyTo: replyTo, MessageId: letter.MessageId, Timestamp: letter.Timestamp,
		Type: letter.Type, AppId: letter.AppId,
	}
}

// directReplyTo begins the names of the pseudo-queues of direct reply-to. RabbitMQ refuses a message that names one without a consumer.
const directReplyTo = "amq.rabbitmq.reply-to"

// headers are those of a copy, without what tells of attempts that are over, and without what would delay the copy. RabbitMQ 3.10 goes
// on counting a client's x-death, and on every version consumers that count by it would give up at once.
func (s Stamp) headers(letter Letter, at time.Time, seq int64) amqp.Table {
	headers := amqp.Table(contract.CopyHeaders(letter.Headers))
	left := []string{contract.HeaderDeferCount, contract.HeaderCopyID, headerDeliveryTime, headerDeferralToken}
	for _, name := range append(left, s.Remove...) {
		delete(headers, name)
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool { return strings.HasPrefix(name, prefixFailure) })
	setOrigin(headers, letter)
	headers[HeaderRedriveID], headers[HeaderRedriveName], headers[HeaderRedriveFrom] = s.ID, s.Name, s.From
	headers[HeaderRedriveAt], headers[HeaderRedriveSeq] = at.UTC().Format(time.RFC3339), seq
	headers[contract.HeaderRedriveCount] = min(int64(letter.Redrives)+1, math.MaxInt32) // a larger number reads as 0
	set(headers, HeaderRedriveBy, s.By)
	set(headers, HeaderRedriveReason, s.Reason)
	return headers
}

// setOrigin keeps where the message came from, which the removed headers told. What an earlier Redrive kept stays.
func setOrigin(headers amqp.Table, letter Letter) {
	if _, kept := headers[HeaderOriginReason]; kept {
		return
	}
	headers[HeaderOriginReason] = string(letter.Reason)
	set(headers, HeaderOriginQueue, letter.Origin.Queue)
	set(headers, HeaderOriginUserID, letter.UserId)
	set(headers, HeaderOriginCC, joined(letter.Headers[headerCC]))
	if letter.Origin.Routed {
		headers[HeaderOriginExchange], headers[HeaderOriginRoutingKey] = letter.Origin.Exchange, letter.Origin.RoutingKey
	}
	if !letter.Origin.DiedAt.IsZero() {
		headers[HeaderOriginTime] = letter.Origin.DiedAt.UTC().Format(time.RFC3339)
	}
}

// set sets a header, or removes it where there is nothing to say: the value would be that of an earlier Redrive.
func set(headers amqp.Table, name, value string) {
	if value == "" {
		delete(headers, name)
		return
	}
	headers[name] = value
}

// joined are the routing keys of a CC header, separated by commas.
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
