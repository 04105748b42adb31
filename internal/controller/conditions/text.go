package conditions

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Truncate cuts a text to a number of bytes, between two characters.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// ValidUTF8 replaces what is no UTF-8. JSON would, too, and the status that was written would not be the one that is compared.
func ValidUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// EncodedSize is how many bytes a value takes as JSON.
func EncodedSize(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return math.MaxInt // the types of a status can all be encoded
	}
	return len(text)
}

// TruncateEncoded cuts a text so that it takes no more bytes than this as JSON, its quotes left out.
func TruncateEncoded(text string, limit int) string {
	const quotes = len(`""`)
	text = ValidUTF8(text)
	if EncodedSize(text)-quotes <= limit {
		return text
	}
	size := len("…")
	for i, r := range text {
		size += EncodedSize(string(r)) - quotes
		if size > limit {
			return text[:i] + "…"
		}
	}
	return text
}

// ErrorSummary is an error on one line, of one that joins several the first few.
func ErrorSummary(err error) string {
	return FirstN(strings.Split(err.Error(), "\n"))
}

// FirstN joins the first few messages, and says how many more there are.
func FirstN(messages []string) string {
	const most = 5
	if more := len(messages) - most; more > 0 {
		messages = append(slices.Clone(messages[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}
