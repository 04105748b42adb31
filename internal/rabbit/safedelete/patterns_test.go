package safedelete_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// The test uses policies of exchanges, because the broker immediately shows which policy is in effect. It matches queues in the same way.
func TestPatternsMatchLikeTheBrokers(t *testing.T) {
	names := []string{
		"orders", "orders.dlq", "orders.retry.30s", "Orders", "amqp", "a b", "größe", "ÀÉ", "日本", "aaab", "x]y", "x-y", "a.b|c", "1",
	}
	patterns := []string{
		"", ".", "^orders", "orders$", `^(?!amq\.).*`, `^(?!orders\.).*$`, `(?<=\.)dlq`, `(?<!\.dlq)$`, `\Aorders\z`, `^orders\Z`,
		`^(?>a|aa)b`, `^a++b`, `^a*+b`, `^a{2,3}b`, `^gr..ße$`, `^gr.ße$`, "^.{6}$", `^[^a-z]+$`, `^[]x]+`, `^[a-z\-]+$`, `^\w+$`, `^\S+$`,
		`\s`, `\W`, `\bdlq\b`, `(?i)^ORDERS$`, `^(?i:ORD)ers`, `(?s)^.`, `\d`, `^\D+$`, `a\.b\|c`, fence.Pattern([]string{"größe", "a.b|c", "x]y"}),
		`^[[:alpha:]]+$`, `^(?P<n>o)`, `^(o)r(?1)`, `\x6f`, `^\Qa.b|c\E`, `^(?|o|O)r`, `^\p{Lu}`, `\h`, `^(?#nothing)o`,
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		for _, name := range names {
			vh.DeclareExchange(name, "fanout", nil)
		}
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		unknown := 0
		for _, text := range patterns {
			vh.SetPolicy("p", brokers.Policy{Pattern: text, ApplyTo: "exchanges", Definition: map[string]any{"alternate-exchange": "amq.fanout"}})
			var want []string
			pattern := vhost.ReadPattern(text)
			uncertain := map[string]bool{}
			for _, name := range names {
				switch pattern.Match(name) {
				case vhost.MatchYes:
					want = append(want, name)
				case vhost.MatchUnknown:
					uncertain[name] = true
					unknown++
				}
			}
			slices.Sort(want)
			NewWithT(t).Eventually(func() string {
				matched := slices.DeleteFunc(exchangesWithPolicy(t, connection), func(name string) bool { return uncertain[name] })
				return cmp.Diff(want, matched, cmpopts.EquateEmpty())
			}).WithTimeout(rabbittest.Within).WithPolling(10*time.Millisecond).Should(BeEmpty(), "pattern %q: Warren (-), broker (+)", text)
		}
		if allowed := len(names) * len(patterns) / 3; unknown > allowed {
			t.Errorf("%d of %d matches are unknown", unknown, len(names)*len(patterns))
		}
	})
}

// exchangesWithPolicy lists the exchanges that have a policy in effect.
func exchangesWithPolicy(t *testing.T, connection *rabbittest.Connection) []string {
	t.Helper()
	var exchanges []struct{ Name, Policy string }
	path := "/exchanges/" + url.PathEscape(connection.VHost()) + "?columns=name,policy"
	if _, err := connection.API.Get(t.Context(), path, "", &exchanges); err != nil {
		t.Fatal(err)
	}
	var with []string
	for _, exchange := range exchanges {
		if exchange.Policy != "" && !strings.HasPrefix(exchange.Name, "amq.") && exchange.Name != "" {
			with = append(with, exchange.Name)
		}
	}
	slices.Sort(with)
	return with
}
