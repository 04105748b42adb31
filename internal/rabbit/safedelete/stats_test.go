package safedelete

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
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

// A fence that Warren could not take down yet has the settings that the policy below had when the fence was made harmless.
func TestALeftoverFenceLimitsItsQueue(t *testing.T) {
	t.Parallel()
	now := vhost.Policy{
		Name: "limits", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues", Definition: vhost.Arguments{vhost.KeyMaxLength: int64(1000)},
	}
	former := fence.Fence{Effective: vhost.Arguments{vhost.KeyMaxLength: int64(10)}}
	for name, test := range map[string]struct {
		definition vhost.Arguments
		queue      string
		want       int64
	}{
		"a harmless fence":          {former.Harmless(), "orders", 10},
		"an open fence":             {former.Open(), "orders", 1000},
		"a fence of another queue":  {former.Harmless(), "invoices", 1000},
		"a fence without a maximum": {fence.Fence{}.Harmless(), "orders", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := vhost.Policy{
				Name: fence.Name{Owner: "mine", Begun: time.Now(), Recreation: true}.String(test.queue), Priority: 1000, ApplyTo: "queues",
				Pattern: vhost.ReadPattern(fence.Pattern([]string{test.queue})), Definition: test.definition,
			}
			messages, bytes := DropLimits("orders", nil, []vhost.Policy{now, left})
			if messages != test.want || bytes != math.MaxInt64 {
				t.Errorf("%d messages and %d bytes, want %d messages", messages, bytes, test.want)
			}
		})
	}
}
