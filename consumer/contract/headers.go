package contract

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Headers that Warren's consumers set on copies.
const (
	// HeaderRetryCount is the number of failed attempts.
	HeaderRetryCount = "x-retry-count"
	// HeaderOriginalExchange and HeaderOriginalRoutingKey are where the producer published the message.
	HeaderOriginalExchange   = "x-original-exchange"
	HeaderOriginalRoutingKey = "x-original-routing-key"
	// HeaderCopyID identifies the delivery that was copied. Two messages with the same ID are duplicates.
	HeaderCopyID = "x-copy-id"
	// HeaderDeferCount is how often the message was deferred.
	HeaderDeferCount = "x-defer-count"
	// HeaderFailureKind and the following headers describe the last failure.
	HeaderFailureKind    = "x-failure-kind"
	HeaderFailureMessage = "x-failure-message"
	HeaderFailureTime    = "x-failure-time"
	HeaderFailureQueue   = "x-failure-queue"
	HeaderFailureClient  = "x-failure-client"
)

// HeaderRedriveCount is how often a message was moved back from the dead-letter queue. The program that moves the message sets the
// header, and copies keep it.
const HeaderRedriveCount = "x-warren-redrive-count"

// The prefixes of the headers that a Redrive adds.
const (
	prefixRedrive = "x-warren-redrive-"
	prefixOrigin  = "x-warren-origin-"
)

// RabbitMQ's headers that this package reads or leaves out of copies.
const (
	headerDeath         = "x-death"
	headerDeliveryCount = "x-delivery-count"
)

// headersLeftOut are headers that copies do not get. CC and BCC would route the copy to each queue that they name. RabbitMQ sets
// the others and counts deliveries with them.
var headersLeftOut = []string{"CC", "BCC", headerDeath, headerDeliveryCount, "x-acquired-count"}

// prefixesLeftOut are prefixes of further RabbitMQ headers that copies do not get.
var prefixesLeftOut = []string{"x-first-death-", "x-last-death-"}

// MaxFailureMessageBytes is the maximum length of x-failure-message, in bytes.
const MaxFailureMessageBytes = 1024

// FailureKind is why a message was retried or parked.
type FailureKind string

// Kinds of failure.
const (
	KindFailed      FailureKind = "failed"
	KindExhausted   FailureKind = "exhausted" // no attempt is left
	KindPermanent   FailureKind = "permanent"
	KindUndecodable FailureKind = "undecodable"
	KindPanic       FailureKind = "panic"
	KindTimeout     FailureKind = "timeout"
	KindCrashed     FailureKind = "crashed" // delivered too often without success or failure
)

// CopyHeaders returns a copy of the headers of a message without CC, BCC, and the headers in which RabbitMQ counts and describes
// deaths.
func CopyHeaders(headers map[string]any) map[string]any {
	copied := make(map[string]any, len(headers)+8)
	maps.Copy(copied, headers)
	for _, name := range headersLeftOut {
		delete(copied, name)
	}
	maps.DeleteFunc(copied, func(name string, _ any) bool {
		return slices.ContainsFunc(prefixesLeftOut, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	return copied
}

// count returns a number that is not negative. Other values of a header count as 0.
func count(value any) int {
	number := 0.0 // exact up to math.MaxInt32
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		number = float64(v.Int())
	case v.CanUint():
		number = float64(v.Uint())
	case v.Kind() == reflect.Float64: // from JSON, and from clients without integers
		number = v.Float()
	}
	if number < 0 || number > math.MaxInt32 || number != math.Trunc(number) {
		return 0
	}
	return int(number)
}

// Redrives returns how often a message was moved back from the dead-letter queue, from its headers.
func Redrives(headers map[string]any) int { return count(headers[HeaderRedriveCount]) }

// Deferrals returns how often a message was deferred, from its headers.
func Deferrals(headers map[string]any) int { return count(headers[HeaderDeferCount]) }

// ForwardHeaders returns the headers of a message for another message that follows from it. It leaves out the headers of copies, deaths
// and Redrives.
func ForwardHeaders(headers map[string]any) map[string]any {
	forwarded := CopyHeaders(headers)
	for _, name := range []string{
		HeaderRetryCount, HeaderOriginalExchange, HeaderOriginalRoutingKey, HeaderCopyID, HeaderDeferCount,
	} {
		delete(forwarded, name)
	}
	deleteFailure(forwarded)
	maps.DeleteFunc(forwarded, func(name string, _ any) bool {
		return strings.HasPrefix(name, prefixRedrive) || strings.HasPrefix(name, prefixOrigin)
	})
	return forwarded
}

// text returns a string, or "" for a value of another type.
func text(value any) string {
	read, _ := value.(string)
	return read
}

// rejectedIn returns from x-death how often a message was rejected in a queue, and the route of its publisher. The route is nil if
// x-death does not have both the exchange and a routing key.
func rejectedIn(headers map[string]any, queue string) (times int, published *Route) {
	entries, _ := headers[headerDeath].([]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if text(fields["queue"]) != queue || text(fields["reason"]) != "rejected" {
			continue
		}
		exchange, hasExchange := fields["exchange"].(string)
		keys, _ := fields["routing-keys"].([]any)
		if hasExchange && len(keys) > 0 {
			if key, is := keys[0].(string); is {
				published = &Route{Exchange: exchange, RoutingKey: key}
			}
		}
		return count(fields["count"]), published
	}
	return 0, nil
}

// failedElsewhere reports whether the last failure of a message was in another queue.
func (c Contract) failedElsewhere(headers map[string]any) bool {
	failed := text(headers[HeaderFailureQueue])
	return failed != "" && failed != c.Queue
}

func deleteFailure(headers map[string]any) {
	for _, name := range []string{
		HeaderFailureKind, HeaderFailureMessage, HeaderFailureTime, HeaderFailureQueue, HeaderFailureClient,
	} {
		delete(headers, name)
	}
}

// failureHeaders returns the headers that describe a failure.
func (c Contract) failureHeaders(o Outcome, kind FailureKind) map[string]any {
	headers := map[string]any{HeaderFailureKind: string(kind), HeaderFailureQueue: c.Queue}
	if message := truncate(o.Text, MaxFailureMessageBytes); message != "" {
		headers[HeaderFailureMessage] = message
	}
	if !o.Time.IsZero() {
		headers[HeaderFailureTime] = o.Time.UTC().Format(time.RFC3339)
	}
	if o.Client != "" {
		headers[HeaderFailureClient] = o.Client
	}
	return headers
}

// truncate shortens a text to at most limit bytes without splitting a character, and makes it valid UTF-8.
func truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
