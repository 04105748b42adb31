package management

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
)

// RabbitMQ (3.10, 4.0, 4.3) accepts any number as the priority of a policy, and lists it as an Erlang number.
func TestPrioritiesOfPolicies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 100_000)
	for text, want := range map[string]float64{
		`7`: 7, `-3.5`: -3.5, `1.0`: 1, `1.5`: 1.5, `1.0e300`: 1e300, `9007199254740993`: 1 << 53, `null`: 0,
		long: math.MaxFloat64, `-` + long: -math.MaxFloat64, `1e999`: math.MaxFloat64,
	} {
		var item PolicyItem
		if err := json.Unmarshal([]byte(`{"priority":`+text+`}`), &item); err != nil {
			t.Errorf("%.20s: %v", text, err)
		}
		policy := item.Observed(&vhost.Patterns{}, false)
		if policy.Priority != want {
			t.Errorf("%.20s: %v, want %v", text, policy.Priority, want)
		}
		if _, err := json.Marshal(policy.Priority); err != nil { // a fence that a crash left is written again with its priority
			t.Error(err)
		}
	}
	for _, text := range []string{`"7"`, `"high"`, `true`, `[]`, `{}`} {
		if err := json.Unmarshal([]byte(`{"priority":`+text+`}`), &PolicyItem{}); err == nil {
			t.Errorf("%s is taken for a priority", text)
		}
	}
}
