package printable

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hostile are texts that affect a terminal, or mislead a reader.
var hostile = map[string]struct{ given, want string }{
	"plain text":             {"Straße 7, 東京", "Straße 7, 東京"},
	"a colour":               {"\x1b[31mred", `\x1b[31mred`},
	"the title of a window":  {"\x1b]0;owned\x07", `\x1b]0;owned\a`},
	"a sequence in one byte": {"\u009b2J", `\u009b2J`},
	"a line over the former": {"safe\rrm -rf", `safe\rrm -rf`},
	"a line of its own":      {"a\nPosition: 1", `a\nPosition: 1`},
	"a tab":                  {"a\tb", `a\tb`},
	"backspaces":             {"ab\b\b", `ab\b\b`},
	"delete":                 {"a\x7f", `a\x7f`},
	"nothing at all":         {"a\x00", `a\x00`},
	"writing turned around":  {"\u202etxt.exe", `\u202etxt.exe`},
	"no width":               {"pass\u200bword", `pass\u200bword`},
	"a tag":                  {"a\U000e0041", `a\U000e0041`},
	"no UTF-8":               {"a\x9bb", "a\ufffdb"},
	"a backslash":            {`\x1b`, `\x1b`},
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Text(test.given); got != test.want {
				t.Errorf("%q is printed as %q, want %q", test.given, got, test.want)
			}
		})
	}
}

func TestPrintableLines(t *testing.T) {
	t.Parallel()
	got := Lines("a\r\n\tb\x1b[2J\n\nc\rd\n")
	if difference := cmp.Diff([]string{"a", "\tb" + `\x1b[2J`, "", `c\rd`}, got); difference != "" {
		t.Errorf("lines (-want +got):\n%s", difference)
	}
}

func TestQuotedYAML(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text           string
		isText         bool
		given, printed string
	}{
		"plain text":             {"Straße 7\nb", true, "a: |-\n  Straße 7\n  b\n", "a: |-\n  Straße 7\n  b\n"},
		"writing turned around":  {"\u202etxt.exe", false, "a: \"\u202etxt.exe\"\n", `a: "\u202etxt.exe"` + "\n"},
		"a tag":                  {"a\U000e0041", false, "a: \"a\U000e0041\"\n", `a: "a\U000e0041"` + "\n"},
		"a space without breaks": {"a\u00a0b", false, "a: \"a\u00a0b\"\n", `a: "a\u00a0b"` + "\n"},
		"no UTF-8":               {"a\x9bb", false, "a: 1\n", "a: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := IsText(test.text); got != test.isText {
				t.Errorf("IsText(%q) = %t", test.text, got)
			}
			if got := string(QuotedYAML([]byte(test.given))); got != test.printed {
				t.Errorf("%q is printed as %q, want %q", test.given, got, test.printed)
			}
		})
	}
}
