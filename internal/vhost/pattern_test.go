package vhost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
)

// Tests in internal/rabbit compare such patterns with real brokers.
func TestPatternMatch(t *testing.T) {
	t.Parallel()
	const yes, no, unknown = vhost.MatchYes, vhost.MatchNo, vhost.MatchUnknown
	for _, test := range []struct {
		pattern, name string
		want          vhost.Match
	}{
		{"", "orders", yes},
		{"^orders$", "orders", yes},
		{"^orders$", "orders.dlq", no},
		{"rder", "orders", yes},
		{`^(?!amq\.).*`, "orders", yes},
		{`^(?!amq\.).*`, "amq.gen", no},
		{`(?<=\.)dlq\z`, "orders.dlq", yes},
		{`(?<!\.)dlq\z`, "orders.dlq", no},
		{`^orders$`, "orders\n", yes},
		{`\Aorders\Z`, "orders\n", yes},
		{`\Aorders\z`, "orders\n", no},
		{`^(?>a|ab)c`, "abc", no},
		{`^a++b`, "aaab", yes},
		{`^a++ab`, "aaab", no},
		{`^gr..e$`, "gr\u00f6e", yes}, // the dot is a byte
		{`^gr.e$`, "gr\u00f6e", no},
		{`^gr[\w]e$`, "gr\u00f6e", unknown}, // Erlang 27 and 28 differ
		{`(?i)^GR`, "gr\u00f6e", unknown},
		{`^\w+$`, "orders", yes},
		{`(?i)^ORDERS$`, "orders", yes},
		{`^[[:alpha:]]+$`, "orders", unknown},
		{`^[a-z-[o]]+$`, "orders", unknown},
		{`^(?P<n>o)`, "orders", unknown},
		{`^(o)\1`, "orders", unknown},
		{`^(a|b(?1))`, "orders", unknown},
		{`^(?(DEFINE)x)o`, "orders", unknown},
		{`^\x6frders`, "orders", unknown},
		{`^\Qorders\E`, "orders", unknown},
		{`^(`, "orders", unknown},
		{`^(a+)+(?!b)$`, strings.Repeat("a", 40) + "c", unknown}, // it would take years
		{strings.Repeat("(", 5000) + strings.Repeat(")", 5000), "orders", unknown},
	} {
		equal(t, fmt.Sprintf("%.40q on %q", test.pattern, test.name), test.want, vhost.ReadPattern(test.pattern).Match(test.name))
	}
	equal(t, "the zero pattern", vhost.MatchYes, vhost.Pattern{}.Match("orders"))
	equal(t, "a copy of a pattern", true, vhost.ReadPattern("^a").Equal(vhost.ReadPattern("^a")))
	equal(t, "another pattern", false, vhost.ReadPattern("^a").Equal(vhost.ReadPattern("^b")))
}

// A vhost with many slow patterns costs no more than one with slowPatterns of them.
func TestSlowPatternsAreSkipped(t *testing.T) {
	t.Parallel()
	var patterns, still, gone vhost.Patterns
	for i := range 1000 {
		pattern := patterns.Read(fmt.Sprintf("^(a+)+(?!b)%d$", i))
		equal(t, "match", vhost.MatchUnknown, pattern.Match(strings.Repeat("a", 40)+"c"))
		still.Read(pattern.String()).Reuse(pattern)
	}
	good := patterns.Read("^o")
	equal(t, "a good pattern among them", vhost.MatchUnknown, good.Match("orders"))
	equal(t, "a good pattern in another vhost", vhost.MatchYes, vhost.ReadPattern("^o").Match("orders"))
	equal(t, "after a refresh", vhost.MatchUnknown, still.Read("^o").Reuse(good).Match("orders"))
	equal(t, "after a refresh that no longer shows them", vhost.MatchYes, gone.Read("^o").Reuse(good).Match("orders"))
}

// The patterns of a vhost take a bounded amount of memory. A pattern that exceeds the limit is compiled
// once enough other patterns are gone.
func TestLargePatternsAreNotCompiled(t *testing.T) {
	t.Parallel()
	large := func(i int) string { return fmt.Sprintf("^(?:%d|%s)", i, strings.Repeat("[ab]", 2000)) }
	var first, second, third vhost.Patterns
	known, again := map[vhost.Match]int{}, map[vhost.Match]int{}
	var last vhost.Pattern
	for i := range 34 {
		last = first.Read(large(i))
		known[last.Match("c")]++
		again[second.Read(large(i)).Reuse(last).Match("c")]++
	}
	equal(t, "matches", map[vhost.Match]int{vhost.MatchNo: 32, vhost.MatchUnknown: 2}, known)
	equal(t, "matches of patterns that are used again", map[vhost.Match]int{vhost.MatchNo: 32, vhost.MatchUnknown: 2}, again)
	equal(t, "another pattern beside them", vhost.MatchUnknown, second.Read(large(34)).Match("c"))
	equal(t, "the last one alone", vhost.MatchNo, third.Read(last.String()).Reuse(last).Match("c"))
}
