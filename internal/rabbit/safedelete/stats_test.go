package safedelete

import (
	"errors"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// The counts of a queue come from its leader, and a queue without a majority accepts no sentinel.
func TestOnlyARunningQueueIsEligible(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		leader, state string
		says          string // none if the queue is eligible
	}{
		"running":          {"rabbit@a", "running", ""},
		"running, on 3.10": {"rabbit@a", "live", ""},
		"no leader":        {"", "running", `not proven empty: queue "q" has no leader`},
		"no majority":      {"rabbit@a", "minority", `not proven empty: queue "q" is minority`},
		"down":             {"rabbit@a", "down", `not proven empty: queue "q" is down`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := management.QueueInfo{Type: vhost.TypeQuorum, Leader: test.leader, State: test.state}
			err := CheckEligible(brokererr.Errors{}, "q", info, nil)
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (!errors.Is(err, brokererr.ErrUnproven) || errors.Is(err, brokererr.ErrUnprovable) || err.Error() != test.says):
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}
