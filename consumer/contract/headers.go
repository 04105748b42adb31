package contract

import (
	"maps"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Headers that Warren's consumers set on copies.
const (
	// HeaderRetryCount is how many attempts have failed.
	HeaderRetryCount = "x-retry-count"
	// HeaderOriginalExchange and HeaderOriginalRoutingKey are where the message was published first.
	HeaderOriginalExchange   = "x-original-exchange"
	HeaderOriginalRoutingKey = "x-original-routing-key"
	// HeaderCopyID is the same for copies of one delivery: of two with one ID, one is a duplicate.
	HeaderCopyID = "x-copy-id"
	// HeaderDeferCount is how often the message was deferred.
	HeaderDeferCount = "x-defer-count"
	// HeaderFailureKind and those after it tell of the last failure.
	HeaderFailureKind    = "x-failure-kind"
	HeaderFailureMessage = "x-failure-message"
	HeaderFailureTime    = "x-failure-time"
	HeaderFailureQueue   = "x-failure-queue"
	HeaderFailureClient  = "x-failure-client"
)

// HeaderRedriveCount is how often a message was brought back from the dead-letter queue, as whoever does that counts. Copies keep the
// header.
const HeaderRedriveCount = "x-warren-redrive-count"

// Headers of RabbitMQ that are read here, or left out of copies.
const (
	headerDeath         = "x-death"
	headerDeliveryCount = "x-delivery-count"
)

// headersLeftOut are not copied. CC and BCC would route the copy to each queue that they name; the others are the broker's, which
// counts by them or delivers them as its own.
var headersLeftOut = []string{"CC", "BCC", headerDeath, headerDeliveryCount, "x-acquired-count"}

// prefixesLeftOut begin further headers of the broker that are not copied.
var prefixesLeftOut = []string{"x-first-death-", "x-last-death-"}

// MaxFailureMessageBytes is the length of x-failure-message, in bytes.
const MaxFailureMessageBytes = 1024

// FailureKind says why a message was retried or given up.
type FailureKind string

// Kinds of failure.
const (
	KindFailed      FailureKind = "failed"
	KindExhausted   FailureKind = "exhausted" // the attempts are used up
	KindPermanent   FailureKind = "permanent"
	KindUndecodable FailureKind = "undecodable"
	KindPanic       FailureKind = "panic"
	KindTimeout     FailureKind = "timeout"
	KindCrashed     FailureKind = "crashed" // it came back so often without a failure that it may end the process
)

// CopyHeaders are the headers of a message without those that must not be copied: CC and BCC, and what RabbitMQ counts and tells of
// deaths.
func CopyHeaders(headers map[string]any) map[string]any {
	copied := make(map[string]any, len(headers)+8)
	maps.Copy(copied, headers)
	for _, name := range headersLeftOut {
		delete(copied, name)
	}
	maps.DeleteFunc(copied, func(name string, _ any) bool {
		for _, prefix := range prefixesLeftOut {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	})
	return copied
}

// count reads a number that is not negative; whatever else a header holds reads as 0.
func count(value any) int {
	number := int64(0)
	switch value := value.(type) {
	case int:
		number = int64(value)
	case int8:
		number = int64(value)
	case int16:
		number = int64(value)
	case int32:
		number = int64(value)
	case int64:
		number = value
	case uint8:
		number = int64(value)
	case uint16:
		number = int64(value)
	case uint32:
		number = int64(value)
	case float64: // of clients that know no integers, and of JSON
		if value != math.Trunc(value) || math.Abs(value) > math.MaxInt32 {
			return 0
		}
		number = int64(value)
	}
	if number < 0 || number > math.MaxInt32 {
		return 0
	}
	return int(number)
}

// Redrives is how often a message was brought back from the dead-letter queue, by its headers.
func Redrives(headers map[string]any) int { return count(headers[HeaderRedriveCount]) }

// Deferrals is how often a message was deferred, by its headers.
func Deferrals(headers map[string]any) int { return count(headers[HeaderDeferCount]) }

// ForwardHeaders are the headers of a message for one that follows from it, without those of copies.
func ForwardHeaders(headers map[string]any) map[string]any {
	forwarded := CopyHeaders(headers)
	for _, name := range []string{
		HeaderRetryCount, HeaderOriginalExchange, HeaderOriginalRoutingKey, HeaderCopyID, HeaderDeferCount, HeaderFailureKind,
		HeaderFailureMessage, HeaderFailureTime, HeaderFailureQueue, HeaderFailureClient, HeaderRedriveCount,
	} {
		delete(forwarded, name)
	}
	return forwarded
}

// text reads a string header; empty if it is none.
func text(value any) string {
	read, _ := value.(string)
	return read
}

// death is an entry of x-death: how often a message died in a queue of a reason.
type death struct {
	count                int
	exchange, routingKey string
}

// rejectedIn finds the entry of x-death for what was rejected in a queue.
func rejectedIn(headers map[string]any, queue string) (found death, ok bool) {
	entries, _ := headers[headerDeath].([]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if text(fields["queue"]) != queue || text(fields["reason"]) != "rejected" {
			continue
		}
		found = death{count: count(fields["count"]), exchange: text(fields["exchange"])}
		if keys, _ := fields["routing-keys"].([]any); len(keys) > 0 {
			found.routingKey = text(keys[0])
		}
		return found, true
	}
	return death{}, false
}

// failureHeaders tell of a failure.
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

// truncate shortens a text to at most limit bytes, between two characters, and makes it valid UTF-8.
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
