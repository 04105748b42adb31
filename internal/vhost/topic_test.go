package vhost

import (
	"strings"
	"testing"
)

func TestMatchesTopic(t *testing.T) {
	t.Parallel()
	for pattern, test := range map[string]struct{ matches, misses []string }{
		"":        {matches: []string{""}, misses: []string{"a", "."}},
		"a":       {matches: []string{"a"}, misses: []string{"", "a.a", "A", "*"}},
		"*":       {matches: []string{"a", "*", "#"}, misses: []string{"", "a.b", "."}},
		"#":       {matches: []string{"", "a", "a.b", ".", "..."}},
		"a.*":     {matches: []string{"a.b", "a."}, misses: []string{"a", "a.b.c", "b.a"}},
		"a.#":     {matches: []string{"a", "a.b", "a.b.c"}, misses: []string{"", "b", "aa"}},
		"#.a":     {matches: []string{"a", "b.a", "c.b.a"}, misses: []string{"", "a.b"}},
		"a.#.b":   {matches: []string{"a.b", "a.x.b", "a.b.b", "a.x.y.b"}, misses: []string{"a", "b", "a.b.c"}},
		"*.#.*":   {matches: []string{"a.b", "a.b.c"}, misses: []string{"", "a"}},
		"#.#":     {matches: []string{"", "a", "a.b.c"}},
		"a*":      {matches: []string{"a*"}, misses: []string{"ab"}},
		"ü.%2F.*": {matches: []string{"ü.%2F.x"}, misses: []string{"u.%2F.x"}},
	} {
		for _, key := range test.matches {
			if !matchesTopic(topicWords(pattern), topicWords(key)) {
				t.Errorf("%q should match %q", pattern, key)
			}
		}
		for _, key := range test.misses {
			if matchesTopic(topicWords(pattern), topicWords(key)) {
				t.Errorf("%q should not match %q", pattern, key)
			}
		}
	}
}

// Compares the table-based match with a naive recursive one.
func FuzzMatchesTopic(f *testing.F) {
	for _, seed := range [][2]string{{"a.*.#", "a.b.c"}, {"#.#", ""}, {"*", "a"}, {"#.a.#.b", "a.a.b.b"}, {".", "."}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, key string) {
		if len(pattern) > 12 || len(key) > 12 {
			return // the naive match is exponential
		}
		want := matchesSlowly(topicWords(pattern), topicWords(key))
		if got := matchesTopic(topicWords(pattern), topicWords(key)); got != want {
			t.Errorf("%q and %q: got %t", pattern, key, got)
		}
		if literal := !strings.ContainsAny(pattern, "*#"); literal && want != (pattern == key) {
			t.Errorf("%q and %q: no wildcards, and yet not compared as they are", pattern, key)
		}
	})
}

func matchesSlowly(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return matchesSlowly(pattern[1:], words) || (len(words) > 0 && matchesSlowly(pattern, words[1:]))
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && matchesSlowly(pattern[1:], words[1:])
}
