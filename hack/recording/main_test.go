package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		writes []string
		want   []string
	}{
		"a progress line that is written again":     {writes: []string{"12 of 40\r", "\x1b[K40 of 40\n"}, want: []string{"40 of 40", ""}},
		"a line that gets shorter after its arrow":  {writes: []string{"a → b → c", "\ra → b\x1b[K"}, want: []string{"a → b"}},
		"a character whose bytes come in two parts": {writes: []string{"a \xe2\x86", "\x92 b"}, want: []string{"a → b"}},
	} {
		screen := &terminal{}
		for i, text := range test.writes {
			screen.write(float64(i), text)
		}
		var got []string
		for i := range screen.lines {
			last := ""
			if line := screen.lines[i]; len(line) > 0 {
				last = line[len(line)-1].text
			}
			got = append(got, last)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
