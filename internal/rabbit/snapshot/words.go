package snapshot

import (
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// What the parts of a snapshot take of memory, in bytes and about: with their places in maps and slices, and without their
// strings and arguments.
const (
	sizeOfQueue    = 160
	sizeOfExchange = 192
	sizeOfBinding  = 512 // it is in two indexes
)

// words keeps one copy of each string that is likely to come again. In a large vhost the names and values of arguments
// would otherwise take most of the memory.
type words map[string]string

const (
	mostWords   = 4096
	longestWord = 64
)

func (w words) of(text string) string {
	known, ok := w[text]
	if ok {
		return known
	}
	if len(w) == mostWords {
		clear(w) // what is common soon comes again
	}
	if len(text) <= longestWord {
		w[text] = text
	}
	return text
}

// share replaces the strings of a table by those known, and says how much memory the table takes.
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
