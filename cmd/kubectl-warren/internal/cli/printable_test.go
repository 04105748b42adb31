package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

// hostile are texts that do something to a terminal, or to the one who reads.
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
			if got := printable(test.given); got != test.want {
				t.Errorf("%q is printed as %q, want %q", test.given, got, test.want)
			}
		})
	}
}

func TestPrintableLines(t *testing.T) {
	t.Parallel()
	got := printableLines("a\r\n\tb\x1b[2J\n\nc\rd\n")
	if difference := cmp.Diff([]string{"a", "\tb" + `\x1b[2J`, "", `c\rd`}, got); difference != "" {
		t.Errorf("lines (-want +got):\n%s", difference)
	}
}

// Whatever a message holds, a terminal gets text, and JSON stays the same JSON.
func FuzzPrintable(f *testing.F) {
	for _, test := range hostile {
		f.Add(test.given)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wantText(t, "line", printable(value), "")
		wantText(t, "lines", strings.Join(printableLines(value), "\n"), "\n\t")
		letter := v1alpha1.DeadLetter{
			ID: value, Reason: value, Origin: v1alpha1.Origin{Queue: value, Exchange: &value, RoutingKey: &value},
			Properties: map[string]any{value: value, "list": []any{value}},
			Headers: map[string]any{
				value: value, "x-death": []any{value, map[string]any{"reason": value, "queue": value, "time": value, "routing-keys": value}},
			},
			Body: value, BodyEncoding: v1alpha1.UTF8, Warnings: []v1alpha1.Warning{v1alpha1.Warning(value)},
		}
		out := &bytes.Buffer{}
		if err := printLetter(out, letter, now); err != nil {
			t.Fatal(err)
		}
		wantText(t, "letter", out.String(), "\n\t")
		wantSameJSON(t, letter)
	})
}

func wantSameJSON(t *testing.T, letter v1alpha1.DeadLetter) {
	t.Helper()
	answer, err := json.Marshal(letter)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{formatJSON, formatYAML} {
		out := &bytes.Buffer{}
		if _, err := (&output{format: format}).printedAnswer(out, answer); err != nil {
			t.Fatal(err)
		}
		wantControlFree(t, format, out.String())
	}
	got, want := any(nil), any(nil)
	if err := json.Unmarshal(printableJSON(answer), &got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if err := json.Unmarshal(answer, &want); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("JSON that is printed (-want +got):\n%s", difference)
	}
}

func wantText(t *testing.T, what, got, allowed string) {
	t.Helper()
	for _, character := range got {
		if !unicode.IsPrint(character) && !strings.ContainsRune(allowed, character) {
			t.Errorf("%s: %U is printed as it is, in %q", what, character, got)
		}
	}
}

func wantControlFree(t *testing.T, what, got string) {
	t.Helper()
	for _, character := range got {
		if unicode.IsControl(character) && character != '\n' {
			t.Errorf("%s: %U is printed as it is, in %q", what, character, got)
		}
	}
}
