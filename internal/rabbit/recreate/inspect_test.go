package recreate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// busyChanger answers zero to the first counts after a quarter of a second, as RabbitMQ does if a queue is too busy to count.
type busyChanger struct {
	Changer

	zeros int // how many more
	moved int
}

func (c *busyChanger) DeclaredQueue(context.Context, string, string) (amqp.Queue, bool, error) {
	if c.zeros > 0 {
		c.zeros--
		time.Sleep(stall)
		return amqp.Queue{}, true, nil
	}
	return amqp.Queue{Messages: 5 - c.moved}, true, nil
}

func (c *busyChanger) Move(context.Context, string, mover.Config) (mover.Progress, error) {
	c.moved = 5
	return mover.Progress{Moved: 5}, nil
}

// busyAPI has no policies.
type busyAPI struct{ API }

func (busyAPI) Policies(context.Context) ([]vhost.Policy, error) { return nil, nil }

func (busyAPI) QueueInfo(context.Context, string, string) (*management.QueueInfo, error) {
	return &management.QueueInfo{}, nil
}

func (busyAPI) BindingsOf(context.Context, string) ([]vhost.Binding, error) { return nil, nil }

func TestABusyQueueIsNotEmpty(t *testing.T) {
	rec := Recreation{ID: "k3v9q2m7xa", Queue: topology.Queue{Name: "orders"}}
	cases := map[string]func(context.Context, *Recreator) (Progress, error){
		"when it is emptied": func(ctx context.Context, r *Recreator) (Progress, error) { return r.Empty(ctx, rec, nil) },
		"when its messages are moved back": func(ctx context.Context, r *Recreator) (Progress, error) {
			return r.moveBoth(ctx, rec, Progress{}, nearlyEmpty, nil)
		},
		"when it is inspected": func(ctx context.Context, r *Recreator) (Progress, error) {
			seen, err := r.Inspect(ctx, rec)
			return Progress{Moved: seen.Queue.Ready}, err
		},
	}
	for name, call := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				progress, err := call(t.Context(), New(Settings{}, nil, &busyChanger{zeros: 2}, nil, busyAPI{}))
				if err != nil || progress.Moved != 5 {
					t.Errorf("%d messages were moved, not 5: %v", progress.Moved, err)
				}
			})
		})
	}
}
