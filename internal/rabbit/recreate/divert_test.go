package recreate

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// declaringChanger records the queues that are declared, at a broker that has all queues or none. It counts the bindings that are made and
// removed.
type declaringChanger struct {
	Changer

	exist          bool
	ready          int
	arguments      map[string]vhost.Arguments // by queue
	bound, unbound int
	removed        []string
}

func (c *declaringChanger) Declare(_ context.Context, _ string, wanted topology.Topology) error {
	for _, queue := range wanted.Queues {
		c.arguments[queue.Name] = queue.Arguments
	}
	c.bound += len(wanted.Bindings)
	return nil
}

func (c *declaringChanger) Remove(_ context.Context, _ string, removal change.Removal) error {
	c.unbound += len(removal.Bindings)
	c.removed = append(c.removed, removal.Queues...)
	return nil
}

func (c *declaringChanger) DeclaredQueue(context.Context, string, string) (amqp.Queue, bool, error) {
	return amqp.Queue{Messages: c.ready}, c.exist, nil
}

// If RabbitMQ 3.10 or 4.0 is killed within a second after a declaration, the queue has no leader afterwards. Another version of Warren may
// have declared a hold that is in use with other arguments, which RabbitMQ refuses to change.
func TestOnlyAHoldAndABacklogInUseAreKept(t *testing.T) {
	t.Parallel()
	unrecorded, recorded := of("orders"), of("orders")
	recorded.Bindings = []vhost.Binding{{Source: "shop"}}
	both := []string{unrecorded.Backlog(), unrecorded.Hold()}
	for name, test := range map[string]struct {
		rec               Recreation
		exist             bool
		ready             int
		removed, declared []string
	}{
		"they do not exist":             {rec: unrecorded, declared: both},
		"they exist":                    {rec: unrecorded, exist: true, removed: both, declared: both},
		"they exist, and have messages": {rec: unrecorded, exist: true, ready: 1},
		"the hold may already be bound": {rec: recorded, exist: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changer := &declaringChanger{exist: test.exist, ready: test.ready, arguments: map[string]vhost.Arguments{}}
				err := New(Settings{}, versioned{version: "4.3.6"}, changer, nil, busyAPI{}).declareHoldAndBacklog(t.Context(), test.rec)
				topologytest.Equal(t, "error", nil, err)
				topologytest.Equal(t, "removed", test.removed, changer.removed)
				topologytest.Equal(t, "declared", test.declared, slices.Sorted(maps.Keys(changer.arguments)))
			})
		})
	}
}

// A message that cannot be moved is returned each time. With the default limit of RabbitMQ 4.0, the hold would drop it after 20 deliveries.
func TestTheHoldAndTheBacklogHaveNoDeliveryLimit(t *testing.T) {
	t.Parallel()
	rec := of("orders")
	for version, want := range map[string]vhost.Arguments{
		"4.3.6":  {vhost.ArgQueueType: vhost.TypeQuorum, vhost.ArgDeliveryLimit: int64(-1)},
		"3.10.8": {vhost.ArgQueueType: vhost.TypeQuorum}, // which has no limit by default
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			changer := &declaringChanger{arguments: map[string]vhost.Arguments{}}
			if err := New(Settings{}, versioned{version: version}, changer, nil, busyAPI{}).declareHoldAndBacklog(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(map[string]vhost.Arguments{rec.Hold(): want, rec.Backlog(): want}, changer.arguments); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// A dead-letter worker whose queue is gone when it starts brings down the workers of its node. The probe is deleted immediately.
func TestTheProbeHasNoDeadLetterWorker(t *testing.T) {
	t.Parallel()
	rec := of("orders")
	rec.Queue.Arguments = vhost.Arguments{vhost.ArgDeliveryLimit: int64(7), vhost.ArgDeadLetterStrategy: vhost.StrategyAtLeastOnce}
	changer := &declaringChanger{arguments: map[string]vhost.Arguments{}}
	if err := New(Settings{}, nil, changer, nil, nil).tryArguments(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	want := map[string]vhost.Arguments{rec.probe(): {vhost.ArgDeliveryLimit: int64(7)}}
	if difference := cmp.Diff(want, changer.arguments); difference != "" {
		t.Error(difference)
	}
	if rec.Queue.Arguments[vhost.ArgDeadLetterStrategy] != vhost.StrategyAtLeastOnce {
		t.Errorf("the queue would be declared with %v", rec.Queue.Arguments)
	}
}

// boundAPI shows bindings until one is removed.
type boundAPI struct {
	busyAPI

	bindings []vhost.Binding
	changer  *declaringChanger
}

func (a boundAPI) BindingsOf(context.Context, string) ([]vhost.Binding, error) {
	if a.changer.unbound > 0 {
		return nil, nil
	}
	return a.bindings, nil
}

// A status has no room for more bindings. If the queue lost bindings that are not recorded, a crash could lose them for good.
func TestBindingsThatAppearWhileDiverting(t *testing.T) {
	t.Parallel()
	var bindings []vhost.Binding
	for i := range MaxBindings + 1 {
		bindings = append(bindings, vhost.Binding{Source: "shop", RoutingKey: strconv.Itoa(i)})
	}
	type done struct{ Recorded, Bound, Unbound int }
	for name, test := range map[string]struct {
		recorded, found []vhost.Binding
		reason          Reason
		want            done
	}{
		"as many as allowed":        {bindings[2:], bindings[1:2], "", done{MaxBindings, 1, 1}},
		"too many":                  {nil, bindings, TooManyBindings, done{}},
		"too many with those known": {bindings[1:], bindings[:1], TooManyBindings, done{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changer, recorded := &declaringChanger{}, 0
			rec := of("orders")
			rec.Bindings = test.recorded
			r := New(Settings{}, nil, changer, nil, boundAPI{bindings: test.found, changer: changer})
			_, err := r.divertAll(t.Context(), rec, func(_ context.Context, all []vhost.Binding) error {
				recorded = len(all)
				return nil
			})
			if ReasonOf(err) != test.reason || err != nil && test.reason == "" {
				t.Errorf("%q: %v", ReasonOf(err), err)
			}
			if difference := cmp.Diff(test.want, done{recorded, changer.bound, changer.unbound}); difference != "" {
				t.Error(difference)
			}
		})
	}
}
