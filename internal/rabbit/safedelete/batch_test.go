package safedelete

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// The budget counts from the first fence, which may take long to write, and ends before a sentinel can expire.
func TestDeadlineOfABatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ written, ttl, want time.Duration }{
		{written: 0, want: 10 * time.Second},
		{written: 13 * time.Second, want: 10 * time.Second},
		{written: time.Second, ttl: 5 * time.Second, want: 3500 * time.Millisecond},
		{written: 9 * time.Second, ttl: 5 * time.Second, want: 10 * time.Second},
		{written: time.Second, ttl: time.Minute, want: 10 * time.Second},
	} {
		t.Run(fmt.Sprintf("fences written within %v, TTL %v", test.written, test.ttl), func(t *testing.T) {
			t.Parallel()
			arguments := vhost.Arguments{}
			if test.ttl > 0 {
				arguments[vhost.ArgMessageTTL] = test.ttl.Milliseconds()
			}
			begun := time.Now()
			d := &batch{
				groups: []*group{{queues: []string{"tier"}}}, published: begun.Add(test.written),
				stats: map[string]*queueStats{"tier": {QueueInfo: management.QueueInfo{Arguments: arguments}}},
			}
			if got := d.deadlineFrom(begun).Sub(begun); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// A policy that overrides the fence makes the queue accept messages, or drop them.
func TestPoliciesThatOverrideAFence(t *testing.T) {
	t.Parallel()
	own := fence.Name{Owner: "mine", Begun: time.Now()}.String("orders")
	foreign := fence.Name{Owner: "another", Begun: time.Now()}.String("orders")
	for name, test := range map[string]struct {
		policy vhost.Policy
		says   string // none if the policy does not override the fence
	}{
		"a lower priority": {vhost.Policy{Name: "p", Priority: 999}, ""},
		"the same priority": {
			vhost.Policy{Name: "p", Priority: 1000}, `queue "orders": policy "p" overrides the fence: its priority is 1000`,
		},
		"a priority that no fence has": {
			vhost.Policy{Name: "p", Priority: 1e300}, `queue "orders": policy "p" overrides the fence: its priority is 1e+300`,
		},
		"the same priority for another queue": {vhost.Policy{Name: "p", Priority: 1000, Pattern: vhost.ReadPattern("^bills$")}, ""},
		"an operator policy that drops messages": {
			vhost.Policy{Name: "p", Operator: true, Definition: vhost.Arguments{vhost.KeyOverflow: "drop-head"}},
			`queue "orders": operator policy "p" overrides the fence: it sets overflow drop-head`,
		},
		"an operator policy that refuses messages": {
			vhost.Policy{Name: "p", Operator: true, Definition: vhost.Arguments{vhost.KeyOverflow: vhost.OverflowRejectPublish}}, "",
		},
		"a higher priority, with a key that no quorum queue supports": {
			vhost.Policy{Name: "p", Priority: 5000, Definition: vhost.Arguments{"queue-mode": "lazy"}}, "",
		},
		"an operator policy of the same priority": {vhost.Policy{Name: "p", Operator: true, Priority: 1000}, ""},
		"the fence":                   {vhost.Policy{Name: own, Priority: 1000}, ""},
		"a fence of another deletion": {vhost.Policy{Name: foreign}, `policy "` + foreign + `" of another deletion still exists`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := test.policy
			policy.ApplyTo = "queues"
			if policy.Pattern.String() == "" {
				policy.Pattern = vhost.ReadPattern("^orders$")
			}
			p := preflight{&batch{deleter: &Deleter{}, priority: 1000, fences: []fence.Fence{{Name: own}}}}
			err := p.checkUnhindered(&group{queues: []string{"orders"}}, []vhost.Policy{policy})
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (!errors.Is(err, brokererr.ErrUnproven) || !strings.Contains(err.Error(), test.says)):
				t.Errorf("%v does not say %q", err, test.says)
			}
		})
	}
}

// A fence outranks the other policies, whatever numbers their priorities are.
func TestPriorityOfAFence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		priorities []float64
		operator   bool
		want       float64
	}{
		"no policy":                         {want: 1000},
		"low priorities":                    {priorities: []float64{-1e300, 0, 998.5}, want: 1000},
		"a high priority":                   {priorities: []float64{2000, 1000}, want: 2001},
		"a fraction":                        {priorities: []float64{1000.5}, want: 1001},
		"an operator policy":                {priorities: []float64{2000}, operator: true, want: 1000},
		"the highest that is outranked":     {priorities: []float64{1<<53 - 1}, want: 1 << 53},
		"priorities that no fence outranks": {priorities: []float64{1 << 53, 1e300, math.MaxFloat64, 7}, want: 1000},
	} {
		var policies []vhost.Policy
		for _, priority := range test.priorities {
			policies = append(policies, vhost.Policy{Priority: priority, Operator: test.operator})
		}
		if got := priorityOver(policies); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// The address leads to another cluster since Warren has last seen the queue or the fence.
func TestNoFenceIsWrittenToAnotherCluster(t *testing.T) {
	t.Parallel()
	first := vhost.Cluster{Name: "first"}.Key()
	for name, write := range map[string]func(context.Context, *Deleter) error{
		"by a deletion": func(ctx context.Context, d *Deleter) error {
			g := &group{ctx: ctx, cluster: first, queues: []string{"orders"}, done: make(chan error, 1)}
			d.runBatch([]*group{g})
			return <-g.done
		},
		"after a crash": func(ctx context.Context, d *Deleter) error {
			return recovery{d}.clearLeftover(ctx, first, leftover{policy: vhost.Policy{
				Name: "fence", Pattern: vhost.ReadPattern(fence.Pattern([]string{"orders"})), Definition: fence.Fence{}.Closed(),
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := &emptyBroker{}
			if err := write(t.Context(), New(Settings{}, broker, broker, broker)); !errors.Is(err, brokererr.ErrOtherCluster) {
				t.Error(err)
			}
			if difference := cmp.Diff([]string{}, broker.changes, cmpopts.EquateEmpty()); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// While a batch waits for a slot, a queue can become one that must not be deleted.
func TestABatchThatWaitedForASlotAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := &emptyBroker{}
		d := New(Settings{}, broker, broker, broker)
		for range fenceLimit {
			d.deletions.slots <- struct{}{}
		}
		time.AfterFunc(answerAge+time.Second, func() { <-d.deletions.slots })
		changed, asked := errors.New("something dead-letters to the queue now"), 0
		g := &group{ctx: t.Context(), queues: []string{"orders"}, done: make(chan error, 1), stillDeletable: func(context.Context) error {
			if asked++; asked == 1 {
				return nil
			}
			return changed
		}}
		d.runBatch([]*group{g})
		if err := <-g.done; !errors.Is(err, changed) {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

// refusingBroker refuses to declare one queue.
type refusingBroker struct {
	emptyBroker

	refuses  string
	declared []string
}

func (b *refusingBroker) Declare(_ context.Context, _ string, queue topology.Queue, _ []topology.Binding) error {
	if queue.Name == b.refuses {
		return brokererr.ErrPreconditionFailed
	}
	b.declared = append(b.declared, queue.Name)
	return nil
}

// A deleted queue that cannot be declared again does not keep the others of its group deleted.
func TestRestoringContinuesAfterARefusal(t *testing.T) {
	t.Parallel()
	broker := &refusingBroker{refuses: "tier 1"}
	sent := map[string]time.Time{"tier 1": time.Now(), "tier 2": time.Now()}
	r := restoration{&batch{deleter: New(Settings{Log: logr.Discard()}, broker, broker, broker), sent: sent}}
	g := &group{queues: []string{"main"}}
	for _, name := range []string{"tier 1", "tier 2"} {
		g.deleted = append(g.deleted, deletedQueue{Queue: topology.Queue{Name: name}})
	}
	err := r.restore(t.Context(), g, brokererr.ErrNotEmpty)
	if difference := cmp.Diff([]string{"tier 2"}, broker.declared); difference != "" {
		t.Error(difference)
	}
	for _, says := range []string{`queue "tier 1" was deleted, and could not be declared again`, `deleted queues are declared again: "tier 2"`} {
		if !errors.Is(err, brokererr.ErrNotEmpty) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}
