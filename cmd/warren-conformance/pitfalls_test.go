package main

import (
	"fmt"
	"os"
	"regexp"
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
		actual = append(actual, fmt.Sprintf("| `%s` | %s |", p.name, p.mistake))
	}
	if difference := cmp.Diff(actual, documented); difference != "" {
		t.Errorf("pitfalls (-actual +documented):\n%s", difference)
	}
}
