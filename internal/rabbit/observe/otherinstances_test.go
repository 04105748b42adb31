package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/text"
)

// A message names the first sixteen other owners in alphabetical order, whatever the order of the listing, and counts the connections and
// fences of the rest.
func TestOtherOwners(t *testing.T) {
	t.Parallel()
	var owners []string
	for i := range 18 {
		owners = append(owners, fmt.Sprintf("owner-%02d", i))
	}
	backward := slices.Clone(owners)
	slices.Reverse(backward)
	long := strings.Repeat("x", 1000)
	for name, given := range map[string]struct {
		owners []string
		want   string
	}{
		"none":     {nil, ""},
		"twice":    {[]string{"b", "a", "b"}, "a, b"},
		"sorted":   {slices.Concat(owners, owners), strings.Join(owners[:16], ", ") + ", and the owners of 4 more connections and fences"},
		"backward": {slices.Concat(backward, backward), strings.Join(owners[:16], ", ") + ", and the owners of 4 more connections and fences"},
		"long":     {[]string{long}, text.Truncate(long, maxOwnerLength)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := otherOwners{}
			for _, owner := range given.owners {
				others.add(owner)
			}
			if got := others.String(); got != given.want {
				t.Errorf("got  %s\nwant %s", got, given.want)
			}
		})
	}
}

// An owner that has no name of its own among many may be any owner.
func TestWhichOwnersMayBeConnected(t *testing.T) {
	t.Parallel()
	few, many := otherOwners{}, otherOwners{}
	few.add("a")
	few.add(strings.Repeat("x", 1000))
	for i := range maxNamedOwners + 1 {
		many.add(fmt.Sprintf("owner-%02d", i))
	}
	for name, test := range map[string]struct {
		others otherOwners
		owner  string
		want   bool
	}{
		"none":              {otherOwners{}, "a", false},
		"connected":         {few, "a", true},
		"not connected":     {few, "b", false},
		"a long name":       {few, strings.Repeat("x", 1000), true},
		"one of many":       {many, "owner-00", true},
		"not named of many": {many, "owner-16", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.others.mayHave(test.owner); got != test.want {
				t.Error(got)
			}
		})
	}
}
