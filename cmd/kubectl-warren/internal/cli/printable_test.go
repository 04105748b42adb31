package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// Whatever a message holds, a terminal gets text, and JSON stays the same JSON.
func FuzzPrintable(f *testing.F) {
	for _, value := range []string{"Straße 7", "\x1b]0;owned\x07", "a\nb\tc", "\u202etxt.exe", "a\U000e0041", "no UTF-8 \x9b"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wantText(t, "line", printable.Text(value), "")
		wantText(t, "lines", strings.Join(printable.Lines(value), "\n"), "\n\t")
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
	if err := json.Unmarshal(printable.JSON(answer), &got); err != nil {
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
