package mover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/management"
)

// A consumer may return its messages while the broker counts them. They are part of the backlog, too.
func TestBacklogOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ready   int
		mayHold bool // a client of the queue
		totals  management.MessageCount
		want    Backlog
	}{
		"no consumer":                              {3, false, management.MessageCount{}, Backlog{Ready: 3}},
		"a consumer holds messages":                {60, true, management.MessageCount{Messages: 100, Unacknowledged: 40}, Backlog{Ready: 60, Held: 40}},
		"a consumer has returned its messages":     {60, true, management.MessageCount{Messages: 100}, Backlog{Ready: 100}},
		"a consumer has taken more messages":       {60, true, management.MessageCount{Messages: 100, Unacknowledged: 70}, Backlog{Ready: 30, Held: 70}},
		"a consumer has acknowledged its messages": {60, true, management.MessageCount{Messages: 50}, Backlog{Ready: 50}},
		"a consumer holds all messages":            {0, true, management.MessageCount{Messages: 40, Unacknowledged: 40}, Backlog{Held: 40}},
		"no statistics":                            {60, true, management.MessageCount{}, Backlog{Ready: 60}},
		"a queue that is too busy to count":        {0, false, management.MessageCount{Messages: 5}, Backlog{IsUncounted: true}},
		"an empty queue":                           {0, false, management.MessageCount{}, Backlog{}},
		"an empty classic queue":                   {0, true, management.MessageCount{}, Backlog{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, backlogOf(test.ready, test.mayHold, test.totals)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
