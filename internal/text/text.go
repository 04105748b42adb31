package text

import (
	"fmt"
	"strconv"
	"strings"
)

// Truncate shortens a string to at most limit bytes, without splitting a character, and ends a shortened string with "…". It replaces
// invalid UTF-8.
func Truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// Count returns a number with its noun: 1 message, 2 messages.
func Count[N int | int64](number N, noun string) string {
	if number != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", number, noun)
}

// Quoted lists names in quotation marks.
func Quoted(names []string) string {
	quotes := make([]string, len(names))
	for i, name := range names {
		quotes[i] = strconv.Quote(name)
	}
	return strings.Join(quotes, ", ")
}
