package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/consumer/any-language.md lists the pitfalls with the same texts.
func TestThePageListsThePitfalls(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/consumer/any-language.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### The pitfalls\n")
	documented := regexp.MustCompile("(?m)^\\| `.*$").FindAllString(section, -1)
	var actual []string
	for _, p := range pitfalls {
		actual = append(actual, fmt.Sprintf("| `%s` | %s | %s |", p.name, p.rules, p.mistake))
	}
	if difference := cmp.Diff(actual, documented); difference != "" {
		t.Errorf("pitfalls (-actual +documented):\n%s", difference)
	}
}

// The page has thirteen rules.
func TestEachRuleHasAPitfall(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, p := range pitfalls {
		for rule := range strings.SplitSeq(p.rules, ", ") {
			shown[rule] = true
		}
	}
	for rule := 1; rule <= 13; rule++ {
		if !shown[strconv.Itoa(rule)] {
			t.Errorf("no pitfall shows rule %d", rule)
		}
	}
}
