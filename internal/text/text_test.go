package text_test

import (
	"testing"

	"github.com/warren-mq/warren/internal/text"
)

func TestTruncate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"short":                              {"12345678", "12345678"},
		"long":                               {"123456789", "12345…"},
		"a two-byte character is not split":  {"1234äöüß", "1234…"},
		"a four-byte character is not split": {"1234😀😀", "1234…"},
		"invalid UTF-8":                      {"1\xff", "1\uFFFD"},
		"invalid UTF-8 beyond the limit":     {"12345678\xff", "12345…"},
		"empty":                              {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text.Truncate(test.text, 8); got != test.want {
				t.Errorf("Truncate returned %q, want %q", got, test.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]string{0: "0 messages", 1: "1 message", 2: "2 messages"} {
		if got := text.Count(number, "message"); got != want {
			t.Errorf("Count(%d) returned %q, want %q", number, got, want)
		}
	}
}
