package mover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/management"
)

// A consumer may return its messages while the broker counts them. They count, too.
func TestCountsOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ready   int
		mayHold bool // a client of the queue
		totals  management.MessageCount
		want    QueueCounts
	}{
		"no consumer":                              {3, false, management.MessageCount{}, QueueCounts{Ready: 3}},
		"a consumer holds messages":                {60, true, management.MessageCount{Messages: 100, Unacknowledged: 40}, QueueCounts{Ready: 60, Held: 40}},
		"a consumer has returned its messages":     {60, true, management.MessageCount{Messages: 100}, QueueCounts{Ready: 100}},
		"a consumer has taken more messages":       {60, true, management.MessageCount{Messages: 100, Unacknowledged: 70}, QueueCounts{Ready: 30, Held: 70}},
		"a consumer has acknowledged its messages": {60, true, management.MessageCount{Messages: 50}, QueueCounts{Ready: 50}},
		"a consumer holds all messages":            {0, true, management.MessageCount{Messages: 40, Unacknowledged: 40}, QueueCounts{Held: 40}},
		"no statistics":                            {60, true, management.MessageCount{}, QueueCounts{Ready: 60}},
		"a queue that is too busy to count":        {0, false, management.MessageCount{Messages: 5}, QueueCounts{IsUncounted: true}},
		"an empty queue":                           {0, false, management.MessageCount{}, QueueCounts{}},
		"an empty classic queue":                   {0, true, management.MessageCount{}, QueueCounts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, countsOf(test.ready, test.mayHold, test.totals)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
