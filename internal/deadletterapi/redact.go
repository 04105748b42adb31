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

// DefaultRedacted matches the names of headers that seem to hold credentials.
const DefaultRedacted = `(?i)authorization|cookie|token|secret|passw|pwd|credential|(api|access|private)[-_.]?key|session|jwt|signature`

// redacted takes the place of a value.
const redacted = "[redacted]"

// plain are headers as JSON knows values. Headers whose names match are redacted, at every depth.
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

// finite is a number as JSON knows numbers, which has neither infinity nor NaN.
func finite(number float64) any {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return strconv.FormatFloat(number, 'g', -1, 64)
	}
	return number
}

// text is a text that need not be UTF-8, for AMQP does not ask.
func text(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return base64.StdEncoding.EncodeToString([]byte(value))
}

// decimalText writes a decimal, whose value is divided by ten as often as its scale says.
func decimalText(value amqp.Decimal) string {
	return strconv.FormatInt(int64(value.Value), 10) + "e-" + strconv.Itoa(int(value.Scale))
}
