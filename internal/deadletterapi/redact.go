package deadletterapi

import (
	"encoding/base64"
	"math"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DefaultRedacted matches the names of headers that are likely to contain credentials.
const DefaultRedacted = `(?i)authorization|cookie|token|secret|passw|pwd|credential|(api|access|private)[-_.]?key|session|jwt|signature`

// redacted replaces a hidden value.
const redacted = "[redacted]"

// plain converts headers to JSON values. It redacts headers with matching names, at every depth.
func plain(table map[string]any, secret *regexp.Regexp) map[string]any {
	values := make(map[string]any, len(table))
	for name, value := range table {
		if secret.MatchString(name) {
			values[name] = redacted
			continue
		}
		values[name] = plainValue(value, secret)
	}
	return values
}

func plainValue(value any, secret *regexp.Regexp) any {
	switch value := value.(type) {
	case amqp.Table:
		return plain(value, secret)
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = plainValue(item, secret)
		}
		return list
	case []byte:
		if utf8.Valid(value) {
			return string(value)
		}
		return base64.StdEncoding.EncodeToString(value)
	case time.Time:
		return value.UTC().Format(time.RFC3339)
	case amqp.Decimal:
		return decimalText(value)
	case float32:
		return finite(float64(value))
	case float64:
		return finite(value)
	case string:
		return text(value)
	}
	return value
}

// finite converts a number to JSON, which has neither infinity nor NaN.
func finite(number float64) any {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return strconv.FormatFloat(number, 'g', -1, 64)
	}
	return number
}

// text returns a string, base64-encoded if it is not UTF-8. AMQP does not require UTF-8.
func text(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return base64.StdEncoding.EncodeToString([]byte(value))
}

// decimalText formats a decimal: its value divided by ten to the power of its scale.
func decimalText(value amqp.Decimal) string {
	return strconv.FormatInt(int64(value.Value), 10) + "e-" + strconv.Itoa(int(value.Scale))
}
