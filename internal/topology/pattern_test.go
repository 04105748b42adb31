package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// What real brokers say of such patterns is tried in internal/rabbit.
func TestPatternMatch(t *testing.T) {
	t.Parallel()
	const yes, no, unknown = topology.MatchYes, topology.MatchNo, topology.MatchUnknown
	for _, test := range []struct {
		pattern, name string
		want          topology.Match
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
		equal(t, fmt.Sprintf("%.40q on %q", test.pattern, test.name), test.want, topology.ReadPattern(test.pattern).Match(test.name))
	}
	equal(t, "the zero pattern", topology.MatchYes, topology.Pattern{}.Match("orders"))
	equal(t, "a copy of a pattern", true, topology.ReadPattern("^a").Equal(topology.ReadPattern("^a")))
	equal(t, "another pattern", false, topology.ReadPattern("^a").Equal(topology.ReadPattern("^b")))
}

// A vhost with many patterns that take too long costs no more than some of them do.
func TestSlowPatternsAreGivenUp(t *testing.T) {
	t.Parallel()
	var patterns topology.Patterns
	for i := range 1000 {
		pattern := patterns.Read(fmt.Sprintf("^(a+)+(?!b)%d$", i))
		equal(t, "match", topology.MatchUnknown, pattern.Match(strings.Repeat("a", 40)+"c"))
	}
	equal(t, "a good pattern among them", topology.MatchUnknown, patterns.Read("^o").Match("orders"))
	equal(t, "a good pattern in another vhost", topology.MatchYes, topology.ReadPattern("^o").Match("orders"))
}

// manyPolicies is a vhost in which each team has policies of its own, and there is one for all at the bottom.
func manyPolicies(count int) []topology.Policy {
	var patterns topology.Patterns
	policies := []topology.Policy{{
		Name: "all", Pattern: patterns.Read(`^(?!amq\.).*`), ApplyTo: "queues", Priority: -1,
		Definition: topology.Arguments{"overflow": "drop-head"},
	}}
	for i := range count - 1 {
		policies = append(policies, topology.Policy{
			Name: fmt.Sprintf("team-%d", i), Pattern: patterns.Read(fmt.Sprintf(`^team-%d\..*(?<!\.dlq)$`, i)), ApplyTo: "queues",
			Definition: topology.Arguments{"max-length": 1000},
		})
	}
	return policies
}

func BenchmarkDiffManyPolicies(b *testing.B) {
	topo, err := topology.Desired(consumerQueue(b, `{}`), v43)
	if err != nil {
		b.Fatal(err)
	}
	observed := observe(b, topo)
	observed.Policies = manyPolicies(1000)
	for b.Loop() {
		if got := topology.Diff(topo, observed, topology.Context{}); len(got.Advisories) == 0 || got.Advisories[0].Code != v1alpha1.AdvisoryShadowedByPolicy {
			b.Fatal(got.Advisories)
		}
	}
}
