package rabbit

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/topology"
)

// fenceName is what the name of a fence tells: a policy that Warren sets for some seconds while it deletes queues. A
// crash leaves it behind, and then the name is all there is to say whose it was and since when.
type fenceName struct {
	owner string // Config.Owner
	begun time.Time
}

// fenceNames reads warren-fence-<unix seconds>-<at random>:<owner>:<first queue>.
var fenceNames = regexp.MustCompile(`^warren-fence-(\d{1,12})-[A-Z0-9]{6}:([^:]*):`)

// String makes a new name. queue is for people, who may meet it in the management UI.
func (f fenceName) String(queue string) string {
	const readable = 64
	for len(queue) > readable {
		_, size := utf8.DecodeLastRuneInString(queue)
		queue = queue[:len(queue)-size]
	}
	return fmt.Sprintf("warren-fence-%d-%s:%s:%s", f.begun.Unix(), rand.Text()[:6], url.QueryEscape(f.owner), queue)
}

// parseFenceName returns false for policies that are none of Warren's.
func parseFenceName(name string) (fenceName, bool) {
	parts := fenceNames.FindStringSubmatch(name)
	if parts == nil {
		return fenceName{}, false
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	owner, err2 := url.QueryUnescape(parts[2])
	if err != nil || err2 != nil {
		return fenceName{}, false
	}
	return fenceName{owner: owner, begun: time.Unix(seconds, 0)}, true
}

// fencePattern matches exactly the queues of these names. The broker's patterns are PCRE: a backslash before anything
// but a letter or digit makes it literal, and other bytes stand for themselves.
func fencePattern(queues []string) string {
	var pattern strings.Builder
	for i, queue := range queues {
		if i > 0 {
			pattern.WriteByte('|')
		}
		for _, b := range []byte(queue) {
			if b < utf8.RuneSelf && !plainInPattern(b) {
				pattern.WriteByte('\\')
			}
			pattern.WriteByte(b)
		}
	}
	return `\A(?:` + pattern.String() + `)\z`
}

func plainInPattern(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '_'
}

// fencedQueues are the queues that a pattern of fencePattern matches; nil if it is no such pattern.
func fencedQueues(pattern string) []string {
	inner, begins := strings.CutPrefix(pattern, `\A(?:`)
	inner, ends := strings.CutSuffix(inner, `)\z`)
	if !begins || !ends {
		return nil
	}
	queues := []string{""}
	last := 0
	for i := 0; i < len(inner); i++ {
		switch {
		case inner[i] == '|':
			queues = append(queues, "")
			last++
			continue
		case inner[i] == '\\' && i+1 < len(inner):
			i++
		}
		queues[last] += inner[i : i+1]
	}
	return queues
}

// splitFences tells the policies of Warren's own making apart.
func splitFences(items []policyItem) (policies, fences []topology.Policy) {
	for _, item := range items {
		policy := item.observed(false)
		if _, own := parseFenceName(policy.Name); own {
			fences = append(fences, policy)
		} else {
			policies = append(policies, policy)
		}
	}
	return policies, fences
}
