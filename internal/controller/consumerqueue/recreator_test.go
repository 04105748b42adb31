package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// memoryRecreator is the broker side of recreations at a broker in memory. It knows the queue's consumers and messages from the test.
type memoryRecreator struct {
	broker *brokerstest.Broker
	// stored reads the ConsumerQueue from the API server.
	stored func() *v1alpha1.ConsumerQueue

	mu   sync.Mutex
	seen recreate.QueueSeen
	// listed and following are what Consumers returns.
	listed, following int
	calls             []string
	checks            int                 // calls of Check
	lossy             error               // of Check, if messages are moved
	hold              map[string][]string // IDs of recreations by queue, for Find
	holdBindings      []vhost.Binding
	fenced            bool
	deletes           error  // of CheckNoDelete
	isNew             bool   // Inspect reports the new arguments
	inspecting        func() // called by Inspect, if it is set
	// during is called in the work of a phase, before it has an effect.
	during map[v1alpha1.RecreationPhase]func(context.Context) error
	// gone: another client has deleted the queue before the swap.
	gone bool
	// swapped is what Swap reports if its part of during fails.
	swapped recreate.Swapped
	past    int
}

func (m *memoryRecreator) call(ctx context.Context, phase v1alpha1.RecreationPhase, r recreate.Recreation) error {
	m.mu.Lock()
	name := string(phase)
	if r.WithoutHold {
		name += " without hold"
	}
	if r.DeleteSent {
		name += " after a delete"
	}
	if r.StatusLost {
		name += " after the loss of the status"
	}
	m.calls = append(m.calls, fmt.Sprintf("%s %s", name, r.Queue.Name))
	during := m.during[phase]
	m.mu.Unlock()
	if during == nil {
		return ctx.Err()
	}
	return during(ctx)
}

// taken returns the calls so far, and forgets them.
func (m *memoryRecreator) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.calls
	m.calls = nil
	return taken
}

func (m *memoryRecreator) set(change func(*memoryRecreator)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *memoryRecreator) Find(queue string) []string { return m.hold[queue] }

func (m *memoryRecreator) Check(ctx context.Context, r recreate.Recreation) error {
	observed, _ := m.broker.Observe(vhost.Selection{Queues: []string{r.Queue.Name}})
	if r.WithoutHold && len(observed.BindingsTo[r.Queue.Name]) > 0 {
		return &recreate.Error{Reason: recreate.BoundQueue, Message: "the queue is bound"}
	}
	m.mu.Lock()
	m.checks++
	check, lossy := m.during[v1alpha1.RecreationWaiting], m.lossy
	m.mu.Unlock()
	if r.Moves && lossy != nil {
		return lossy
	}
	if check == nil {
		return nil
	}
	return check(ctx)
}

func (m *memoryRecreator) Count(context.Context, recreate.Recreation) (recreate.QueueSeen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen, nil
}

func (m *memoryRecreator) Inspect(context.Context, recreate.Recreation) (recreate.Seen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inspecting != nil {
		m.inspecting()
	}
	hold := recreate.QueueSeen{Bindings: m.holdBindings}
	return recreate.Seen{Queue: m.seen, Hold: hold, Fenced: m.fenced, IsNew: m.isNew}, nil
}

func (m *memoryRecreator) CheckNoDelete(context.Context, recreate.Recreation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deletes
}

func (m *memoryRecreator) Consumers(_ context.Context, _ recreate.Recreation, configMap string) (listed, following int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if configMap != "shop/orders-contract" {
		return m.listed, 0
	}
	return m.listed, m.following
}

func (m *memoryRecreator) Divert(ctx context.Context, r recreate.Recreation, record func(context.Context, []vhost.Binding) error) error {
	observed, _ := m.broker.Observe(vhost.Selection{Queues: []string{r.Queue.Name}})
	if err := record(ctx, observed.BindingsTo[r.Queue.Name]); err != nil {
		return err
	}
	if err := m.call(ctx, v1alpha1.RecreationDiverting, r); err != nil || r.WithoutHold {
		return err
	}
	m.broker.Change(func(s *snapshot.Snapshot) {
		for _, binding := range slices.Clone(observed.BindingsTo[r.Queue.Name]) {
			s.DropBinding(binding)
		}
	})
	return nil
}

func (m *memoryRecreator) Empty(ctx context.Context, r recreate.Recreation, report func(recreate.Progress)) (recreate.Progress, error) {
	report(recreate.Progress{Moved: 5, Remaining: 7})
	err := m.call(ctx, v1alpha1.RecreationEmptying, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	progress := recreate.Progress{Moved: m.seen.Ready + m.past, Past: m.past}
	m.seen.Ready, m.past = 0, 0
	return progress, err
}

func (m *memoryRecreator) Swap(
	ctx context.Context, r recreate.Recreation, recordDelete func(context.Context) error,
) (recreate.Swapped, error) {
	if err := m.call(ctx, v1alpha1.RecreationSwapping, r); err != nil {
		return m.swapped, err
	}
	if !m.gone {
		if err := recordDelete(ctx); err != nil {
			return recreate.Swapped{}, err
		}
		if now := m.stored().Status.Recreation; now == nil || !now.DeleteSent {
			return recreate.Swapped{}, errors.New("the delete would be sent before the status says so")
		}
	}
	m.broker.Change(func(s *snapshot.Snapshot) {
		s.DropQueue(r.Queue.Name)
		s.PutQueue(r.Queue.Name, vhost.Queue{Durable: true, Arguments: r.Queue.Arguments})
	})
	return recreate.Swapped{DeleteSent: !m.gone}, nil
}

func (m *memoryRecreator) GiveBack(ctx context.Context, r recreate.Recreation, _ func(recreate.Progress)) (recreate.Progress, error) {
	if err := m.call(ctx, v1alpha1.RecreationGivingBack, r); err != nil {
		return recreate.Progress{}, err
	}
	m.broker.Change(func(s *snapshot.Snapshot) {
		for _, binding := range r.Bindings {
			s.PutBinding(binding)
		}
	})
	return recreate.Progress{}, nil
}
