package fence

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/internal/vhost"
)

func TestNamesOfFences(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1763750000, 0)
	for _, owner := range []string{"", "7b0c3ac5-33f6-4a5c-9a0e-6b2d2f8f3a11", "a:b %/ü"} {
		for _, queue := range []string{"orders", "", "a:b:c", "größe/50% off + more.#", strings.Repeat("ü", 127)} {
			for _, given := range []Name{{}, {Recreation: true}, {Recreation: true, Repeated: true}} {
				given.Owner, given.Begun = owner, begun
				name := given.String(queue)
				if parsed, ok := ParseName(name); !ok || parsed != given {
					t.Errorf("%q: %+v, %t", name, parsed, ok)
				}
				if !utf8.ValidString(name) || len(name) > 200 {
					t.Errorf("%q", name)
				}
			}
		}
	}
	for _, name := range []string{"", "warren-fence", "warren-fence-1763750000:a:b", "warren-fence-x-ABCDEF:a:b", "my-warren-fence-1-ABCDEF:a:b"} {
		if _, ok := ParseName(name); ok {
			t.Errorf("%q passes for a fence", name)
		}
	}
}

func TestPatternsOfFences(t *testing.T) {
	t.Parallel()
	for _, queues := range [][]string{
		{"orders"},
		{"orders", "orders.retry.30s"},
		{"a.retry", "a", "b.retry", "b"},
		{"a(.dlq", "b|.dlq", ".dlq"},
		{"1", "11", "111", "1111"},
		{"a", "ab", "b", "bb"},
		{"ü", "äü"},
		{"aa", "aa|b)", "bb", "bb|b)"},
		{"a", "a", "b", "b"},
		{"a|b", "(c)", `\d`, `\b`, `\`, "x*[y]^$", "ü-ß", "two words", "#", "\n", `)\z`, "_"},
	} {
		if difference := cmp.Diff(queues, QueuesOf(Pattern(queues))); difference != "" {
			t.Error(difference)
		}
		pattern := vhost.ReadPattern(Pattern(queues))
		for _, queue := range []string{"orders", "orders.retry.30s", "order", "a|b", "(c)", `\d`, "5", "ü-ß", "two words", "\n", "_", ""} {
			want := vhost.MatchNo
			if slices.Contains(queues, queue) {
				want = vhost.MatchYes
			}
			if got := pattern.Match(queue); got != want {
				t.Errorf("the fence around %q: match of %q is %d, should be %d", queues, queue, got, want)
			}
		}
	}
	strange := []string{"", ".*", `\A(?:a`, "^orders$", `\A(?:a)(?:b\z`, `\A(?:a)(?:b)(?:c)\z`, `\A(?:a)b\z`}
	for _, alternatives := range []int{100, 1000, 500_000} { // their combinations would not fit into the memory
		several := "(?:" + strings.Repeat("|", alternatives) + ")"
		strange = append(strange, `\A`+several+several+`\z`)
	}
	for _, pattern := range strange {
		if queues := QueuesOf(pattern); queues != nil {
			t.Errorf("%.100q is taken for a fence around %d queues", pattern, len(queues))
		}
	}
}

// If each main queue has the same tiers, one fence covers many more queues.
func TestFencesOfSimilarQueues(t *testing.T) {
	t.Parallel()
	var queues, deadLetters []string
	for i := range 100 {
		main := "team-orders-" + strconv.Itoa(1000+i)
		queues = append(queues, main+".retry.30s", main+".retry.5m", main)
		deadLetters = append(deadLetters, main+".dlq")
	}
	for _, all := range [][]string{queues, deadLetters} {
		pattern := Pattern(all)
		if len(pattern) > patternLimit || len(Patterns(all)) != 1 {
			t.Errorf("%d bytes: %s", len(pattern), pattern)
		}
		if difference := cmp.Diff(all, QueuesOf(pattern)); difference != "" {
			t.Error(difference)
		}
	}
}

// For any set of names, the fences match exactly these names, and no pattern is too long for RabbitMQ 4.3.
func TestFencesOfAnyNames(t *testing.T) {
	t.Parallel()
	name := rapid.Custom(func(t *rapid.T) string {
		prefix := rapid.SampledFrom([]string{"", "orders", "ord.ers|", strings.Repeat("a.", 60), strings.Repeat("ü", 50)}).Draw(t, "prefix")
		return prefix + rapid.StringOfN(rapid.RuneFrom([]rune("ab.|()\\ü*\n-")), 1, 60, 255-len(prefix)).Draw(t, "rest")
	})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(name, 2, 18, rapid.ID[string]).Draw(t, "names")
		stranger, names := names[0], names[1:]
		groups := Patterns(names)
		if difference := cmp.Diff(names, slices.Concat(groups...)); difference != "" {
			t.Fatal(difference)
		}
		for _, group := range groups {
			text := Pattern(group)
			if len(text) > patternLimit {
				t.Errorf("%d bytes: %s", len(text), text)
			}
			if difference := cmp.Diff(group, QueuesOf(text)); difference != "" {
				t.Error(difference)
			}
			pattern := vhost.ReadPattern(text)
			for _, queue := range group {
				if pattern.Match(queue) != vhost.MatchYes {
					t.Errorf("%s does not match %q", text, queue)
				}
			}
			if pattern.Match(stranger) != vhost.MatchNo {
				t.Errorf("%s matches %q", text, stranger)
			}
		}
	})
}
