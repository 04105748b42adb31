package conditions

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ValidUTF8 replaces invalid UTF-8. Otherwise JSON would replace it, and the written status would differ from the computed one.
func ValidUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// EncodedSize returns how many bytes a value takes as JSON.
func EncodedSize(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return math.MaxInt // all types of a status can be encoded
	}
	return len(text)
}

// TruncateEncoded shortens a text so that it takes at most this many bytes as JSON, without quotes.
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

// ErrorSummary returns an error on one line; of joined errors the first few.
func ErrorSummary(err error) string {
	return FirstN(strings.Split(err.Error(), "\n"))
}

// FirstN joins the first few messages, and adds how many more there are.
func FirstN(messages []string) string {
	const most = 5
	if more := len(messages) - most; more > 0 {
		messages = append(slices.Clone(messages[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}
