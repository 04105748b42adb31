package deadletterjob

import (
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

const many = 1_000_000

func TestClaim(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		progress           transfer.Progress
		rate, total, limit int
		want               int
	}{
		"the first one":                           {transfer.Progress{}, 100, many, 0, 125},
		"a later one":                             {transfer.Progress{Moved: 300}, 100, many, 0, 425},
		"a later one, with messages to be acked":  {transfer.Progress{Moved: 300, Pending: 20}, 100, many, 0, 420},
		"without a rate":                          {transfer.Progress{}, 0, many, 0, 5000},
		"no more than there are":                  {transfer.Progress{}, 100, 7, 0, 7},
		"some may be there again":                 {transfer.Progress{Moved: 7, Unsure: 2}, 100, 7, 0, 9},
		"no more than the limit":                  {transfer.Progress{Moved: 300}, 100, many, 310, 310},
		"the limit is reached":                    {transfer.Progress{Moved: 310}, 100, many, 310, 310},
		"a crash has left 250 messages uncertain": {transfer.Progress{Moved: 300, Unsure: 250}, 100, many, 0, 362},
		"crashes have left more than a claim":     {transfer.Progress{Moved: 900, Unsure: 600}, 100, many, 0, 907},
		"the lowest rate":                         {transfer.Progress{Moved: 9, Unsure: 5}, 1, many, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := nextAtMost(transfer.Config{Total: test.total, Limit: test.limit}, test.progress, test.rate)
			topologytest.Equal(t, "claim", test.want, got)
		})
	}
}

func TestAClaimIsRenewedWhenHalfOfItIsUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		progress       transfer.Progress
		claimed, limit int
		want           bool
	}{
		"nothing is used":        {transfer.Progress{}, 125, 0, false},
		"less than half is used": {transfer.Progress{Moved: 40, InFlight: 20}, 125, 0, false},
		"half is used":           {transfer.Progress{Moved: 43, InFlight: 20}, 125, 0, true},
		"all is used":            {transfer.Progress{Moved: 125}, 125, 0, true},
		"the limit is reached":   {transfer.Progress{Moved: 125}, 125, 125, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := isAtMostDue(transfer.Config{Total: many, Limit: test.limit}, test.progress,
				transfer.Settings{Rate: 100, MaxMoved: test.claimed})
			topologytest.Equal(t, "is due", test.want, got)
		})
	}
}

// Each manager is killed when it has used its whole claim. The next one counts the claim as moved, and knows none of it for certain.
func TestTheRangeAfterCrashesIsOneClaimWide(t *testing.T) {
	t.Parallel()
	for rate, largest := range map[int]int{10: 50, 100: 500, 1500: 7500, 0: unlimitedStep} {
		progress := transfer.Progress{}
		for range 8 {
			claimed := nextAtMost(transfer.Config{Total: many}, progress, rate)
			progress.Unsure += claimed - progress.Moved
			progress.Moved = claimed
		}
		if progress.Unsure > largest {
			t.Errorf("rate %d: %d messages are uncertain, want at most %d", rate, progress.Unsure, largest)
		}
	}
}
