package controller

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// shortened cuts a text to a number of bytes, between two characters.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// valid replaces what is no UTF-8. JSON would, too, and the status that was written would not be the one that is compared.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// encodedSize is how many bytes a value takes as JSON.
func encodedSize(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return math.MaxInt // the types of a status can all be encoded
	}
	return len(text)
}

// cutEncoded cuts a text so that it takes no more bytes than this as JSON, its quotes left out.
func cutEncoded(text string, limit int) string {
	const quotes = len(`""`)
	text = valid(text)
	if encodedSize(text)-quotes <= limit {
		return text
	}
	size := len("…")
	for i, r := range text {
		size += encodedSize(string(r)) - quotes
		if size > limit {
			return text[:i] + "…"
		}
	}
	return text
}

// said is an error on one line, of one that joins several the first few.
func said(err error) string {
	return firstFew(strings.Split(err.Error(), "\n"))
}

func firstFew(messages []string) string {
	const most = 5
	if more := len(messages) - most; more > 0 {
		messages = append(slices.Clone(messages[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}
