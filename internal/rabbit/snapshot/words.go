package snapshot

import (
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// Estimates of the memory that each object takes, in bytes: with its entries in maps and slices, without its strings and arguments.
const (
	sizeOfQueue    = 160
	sizeOfExchange = 192
	sizeOfBinding  = 512 // it is in two indexes
)

// words keeps one copy of each string that is likely to be repeated. Without words, the names and values of arguments would take most of
// the memory of a large vhost.
type words map[string]string

const (
	maxWords      = 4096
	maxWordLength = 64 // in bytes
)

func (w words) of(text string) string {
	known, ok := w[text]
	if ok {
		return known
	}
	if len(w) == maxWords {
		clear(w) // common strings will soon be added again
	}
	if len(text) <= maxWordLength {
		w[text] = text
	}
	return text
}

// share replaces the strings of a table by the copies in w, and returns the memory that the table takes, in bytes.
func (w words) share(arguments vhost.Arguments) int64 {
	if len(arguments) == 0 {
		return 0
	}
	size := int64(management.SizeOfTable)
	if len(arguments) > 8 {
		size += int64(len(arguments)) * management.SizeOfTable / 4
	}
	for key, value := range arguments {
		_, known := w[key]
		if !known {
			size += int64(len(key))
		}
		if text, ok := value.(string); ok {
			if _, known := w[text]; !known {
				size += management.SizeOf(text)
			}
			value = w.of(text)
		} else {
			size += management.SizeOf(value)
		}
		arguments[w.of(key)] = value
	}
	return size
}
