package deadletterjob

import (
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

const many = 1_000_000

func TestNextAtMost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		progress           mover.Progress
		rate, total, limit int
		want               int
	}{
		"the first range": {mover.Progress{}, 100, many, 0, 125},
		"a later range":   {mover.Progress{Moved: 300}, 100, many, 0, 425},
		"a later range, with messages to be acknowledged": {mover.Progress{Moved: 300, Pending: 20}, 100, many, 0, 420},
		"without a rate":                               {mover.Progress{}, 0, many, 0, 5000},
		"no more than the queue has":                   {mover.Progress{}, 100, 7, 0, 7},
		"uncertain messages may be in the queue again": {mover.Progress{Moved: 7, Unsure: 2}, 100, 7, 0, 9},
		"no more than spec.maxMessages":                {mover.Progress{Moved: 300}, 100, many, 310, 310},
		"spec.maxMessages is reached":                  {mover.Progress{Moved: 310}, 100, many, 310, 310},
		"a crash has left 250 messages uncertain":      {mover.Progress{Moved: 300, Unsure: 250}, 100, many, 0, 362},
		"crashes have left more than a step":           {mover.Progress{Moved: 900, Unsure: 600}, 100, many, 0, 907},
		"the lowest rate":                              {mover.Progress{Moved: 9, Unsure: 5}, 1, many, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := nextAtMost(mover.Config{Total: test.total, Limit: test.limit}, test.progress, test.rate)
			topologytest.Equal(t, "atMost", test.want, got)
		})
	}
}

func TestAtMostIsRaisedWhenHalfOfTheStepIsUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		progress      mover.Progress
		atMost, limit int
		want          bool
	}{
		"nothing is used":             {mover.Progress{}, 125, 0, false},
		"less than half is used":      {mover.Progress{Moved: 40, InFlight: 20}, 125, 0, false},
		"half is used":                {mover.Progress{Moved: 43, InFlight: 20}, 125, 0, true},
		"all is used":                 {mover.Progress{Moved: 125}, 125, 0, true},
		"spec.maxMessages is reached": {mover.Progress{Moved: 125}, 125, 125, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := isAtMostDue(mover.Config{Total: many, Limit: test.limit}, test.progress,
				mover.Settings{Rate: 100, MaxMoved: test.atMost})
			topologytest.Equal(t, "is due", test.want, got)
		})
	}
}

// Each manager is killed when it has moved all messages up to atMost and waits for the acknowledgements of 500. The next
// manager counts all of them as moved, and is certain of none.
func TestEachCrashWidensTheRangeByTheSmallestStep(t *testing.T) {
	t.Parallel()
	const crashes = 20
	for rate, largest := range map[int]int{1500: stepSeconds * 1500, 0: unlimitedStep} {
		progress := mover.Progress{}
		for range crashes {
			progress.Pending = 500
			atMost := nextAtMost(mover.Config{Total: many}, progress, rate)
			progress.Unsure += progress.Pending + atMost - progress.Moved
			progress.Moved, progress.Pending = atMost, 0
		}
		if most := largest + crashes*(500+largest/smallestShare); progress.Unsure > most {
			t.Errorf("rate %d: %d messages are uncertain, want at most %d", rate, progress.Unsure, most)
		}
	}
}
