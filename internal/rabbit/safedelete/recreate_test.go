package safedelete

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// recreatedBroker has one queue, which a recreation may be deleting.
type recreatedBroker struct {
	emptyBroker

	begun time.Time
	// silent is for how long the management API does not answer; goneAfter, when the queue is deleted. Zero means never.
	silent, goneAfter time.Duration
	arguments         vhost.Arguments // as the management API shows them; nil if it shows no queue
	declared          bool
	// fence stands in front of the queue, until heldFor with a sentinel that a connection holds.
	fence   string
	heldFor time.Duration
}

func (b *recreatedBroker) DeclaredQueue(context.Context, string, string) (amqp.Queue, bool, error) {
	now := amqp.Queue{Messages: Sentinels}
	if time.Since(b.begun) < b.heldFor {
		now = amqp.Queue{Messages: Sentinels - 1, Consumers: 1}
	}
	return now, b.declared || b.goneAfter == 0 || time.Since(b.begun) < b.goneAfter, nil
}

func (*recreatedBroker) RequestRefresh() {}

func (b *recreatedBroker) Policies(context.Context) ([]vhost.Policy, error) {
	if b.fence == "" {
		return nil, nil
	}
	return []vhost.Policy{{
		Name: b.fence, Pattern: vhost.ReadPattern(fence.Pattern([]string{"orders"})), Definition: fence.Fence{}.Closed(),
	}}, nil
}

func (b *recreatedBroker) Declare(_ context.Context, _ string, queue topology.Queue, _ []topology.Binding) error {
	b.declared, b.arguments = true, queue.Arguments
	return nil
}

func (b *recreatedBroker) QueueInfo(context.Context, string, string) (*management.QueueInfo, error) {
	switch {
	case time.Since(b.begun) < b.silent:
		return nil, brokererr.ErrTimeout
	case b.arguments == nil:
		return nil, nil
	}
	return &management.QueueInfo{Arguments: b.arguments}, nil
}

// Only arguments that were read show which queue it is. The old queue ends the wait, and its recreation can then be aborted. Behind the
// fence of a repeated recreation, even the old queue has the new arguments.
func TestSettleRecreation(t *testing.T) {
	t.Parallel()
	const vanish = 30 * time.Second
	older, newer := quorum(nil), quorum(vhost.Arguments{vhost.ArgMessageTTL: int64(300_000)})
	once := fence.Name{Begun: time.Now(), Recreation: true}.String("orders")
	again := fence.Name{Begun: time.Now(), Recreation: true, Repeated: true}.String("orders")
	for name, test := range map[string]struct {
		broker recreatedBroker
		isNew  bool
		fails  error
		takes  time.Duration // at least
	}{
		"the new queue":                          {broker: recreatedBroker{arguments: newer}, isNew: true},
		"the old queue":                          {broker: recreatedBroker{arguments: older}},
		"the old queue, which is then deleted":   {broker: recreatedBroker{arguments: older, goneAfter: 20 * time.Second}, isNew: true},
		"the new queue, seen during the wait":    {broker: recreatedBroker{arguments: newer, silent: 20 * time.Second}, isNew: true},
		"the new queue, seen after the wait":     {broker: recreatedBroker{arguments: newer, silent: vanish}, isNew: true},
		"the old queue, seen after the wait":     {broker: recreatedBroker{arguments: older, silent: vanish}},
		"the new queue, never seen":              {broker: recreatedBroker{arguments: newer, silent: time.Hour}, fails: brokererr.ErrTimeout},
		"the old queue, never seen":              {broker: recreatedBroker{arguments: older, silent: time.Hour}, fails: brokererr.ErrTimeout},
		"a queue that only AMQP shows":           {fails: brokererr.ErrUnproven},
		"a queue that is deleted after the wait": {broker: recreatedBroker{silent: time.Hour, goneAfter: vanish}, isNew: true},
		"the new queue, whose sentinel another connection holds": {
			broker: recreatedBroker{arguments: newer, fence: once, heldFor: 10 * time.Second}, isNew: true,
		},
		"a repeated recreation whose delete does not arrive": {
			broker: recreatedBroker{arguments: newer, fence: again, heldFor: 10 * time.Second}, isNew: true, takes: 10 * time.Second,
		},
		"a repeated recreation whose delete arrives": {
			broker: recreatedBroker{arguments: newer, fence: again, heldFor: 10 * time.Second, goneAfter: 5 * time.Second},
			isNew:  true, takes: 5 * time.Second,
		},
		"a repeated recreation whose delete may be under way for too long": {
			broker: recreatedBroker{arguments: newer, fence: again, heldFor: time.Hour}, isNew: true, takes: vanish,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				broker := test.broker
				broker.begun = time.Now()
				deleter := New(Settings{Log: logr.Discard(), Timeouts: timing.Timeouts{Vanish: vanish}}, &broker, &broker, &broker)
				defer deleter.Close()
				isNew, err := deleter.SettleRecreation(t.Context(), "second", topology.Queue{Name: "orders", Arguments: newer})
				if isNew != test.isNew || !errors.Is(err, test.fails) {
					t.Errorf("is new: %t, %v, want %t, %v", isNew, err, test.isNew, test.fails)
				}
				if took := time.Since(broker.begun); took < test.takes || test.fails == nil && took > test.takes+vanish {
					t.Errorf("it took %v, want at least %v", took, test.takes)
				}
				if gone := test.broker.goneAfter; gone > 0 && broker.declared != test.isNew {
					t.Errorf("the queue is declared again: %t, want %t", broker.declared, test.isNew)
				}
			})
		})
	}
}
