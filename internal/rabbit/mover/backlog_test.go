package mover

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/management"
)

// A consumer may return its messages while the broker counts them. They are part of the backlog, too.
func TestBacklogOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		declared amqp.Queue
		totals   management.MessageCount
		want     Backlog
	}{
		"no consumer":                              {amqp.Queue{Messages: 3}, management.MessageCount{}, Backlog{Ready: 3}},
		"a consumer holds messages":                {amqp.Queue{Messages: 60, Consumers: 1}, management.MessageCount{Messages: 100, Unacknowledged: 40}, Backlog{Ready: 60, Held: 40}},
		"a consumer has returned its messages":     {amqp.Queue{Messages: 60, Consumers: 1}, management.MessageCount{Messages: 100}, Backlog{Ready: 100}},
		"a consumer has taken more messages":       {amqp.Queue{Messages: 60, Consumers: 1}, management.MessageCount{Messages: 100, Unacknowledged: 70}, Backlog{Ready: 30, Held: 70}},
		"a consumer has acknowledged its messages": {amqp.Queue{Messages: 60, Consumers: 1}, management.MessageCount{Messages: 50}, Backlog{Ready: 50}},
		"a consumer holds all messages":            {amqp.Queue{Consumers: 1}, management.MessageCount{Messages: 40, Unacknowledged: 40}, Backlog{Held: 40}},
		"no statistics":                            {amqp.Queue{Messages: 60, Consumers: 1}, management.MessageCount{}, Backlog{Ready: 60}},
		"a queue that is too busy to count":        {amqp.Queue{}, management.MessageCount{Messages: 5}, Backlog{IsUncounted: true}},
		"an empty queue":                           {amqp.Queue{}, management.MessageCount{}, Backlog{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, backlogOf(test.declared, test.totals)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
