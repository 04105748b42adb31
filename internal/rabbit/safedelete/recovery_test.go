package safedelete

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// If AMQP and the management API lead to two brokers, the queues of one say nothing about the fences of the other. A fence that is taken
// down too early lets messages into a queue that is being deleted.
func TestWhenLeftoverFencesAreOpened(t *testing.T) {
	t.Parallel()
	ready := State{Matched: true, MayWritePolicies: true}
	for name, test := range map[string]struct {
		state State
		lost  bool     // the lease
		want  []string // definitions that are written; the broker refuses the connection that the next step needs
	}{
		"AMQP leads to the same broker":     {state: ready, want: []string{fence.Fence{}.Open().JSON(), fence.Fence{}.Harmless().JSON()}},
		"AMQP may lead to another broker":   {state: State{MayWritePolicies: true}},
		"the user may not write policies":   {state: State{Matched: true}},
		"another process has got the lease": {state: ready, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := &emptyBroker{}
			known := snapshot.New()
			known.Cluster = secondCluster.Key()
			known.Fences = []vhost.Policy{{
				Name: fence.Name{Owner: "mine", Begun: time.Now()}.String("q"), Pattern: vhost.ReadPattern(fence.Pattern([]string{"q"})),
				Definition: fence.Fence{}.Closed(),
			}}
			settings := Settings{Owner: "mine", HoldsLease: func() bool { return !test.lost }}
			deleter := New(settings, &realBroker{known: known, state: test.state}, broker, broker)
			deleter.ClearLeftovers(time.Now())
			deleter.Close() // it waits for the end of the work
			if difference := cmp.Diff(test.want, broker.changes, cmpopts.EquateEmpty()); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// A queue that is too busy to count reports no messages and no consumers while another process deletes it. If one of its sentinels is held
// and the other has expired, the queue shows no message either.
func TestUnheldWhereMessagesExpire(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		deleter, _ := deleterAt(t, vh)
		cluster := deleter.observer.State().Cluster.Key()
		for name, test := range map[string]struct {
			arguments, policy vhost.Arguments
			want              error
		}{
			"no TTL":                               {},
			"a TTL that is longer than the fence":  {arguments: vhost.Arguments{"x-message-ttl": int64(3_600_000)}},
			"a TTL":                                {arguments: vhost.Arguments{"x-message-ttl": int64(60_000)}, want: brokererr.ErrUnproven},
			"a TTL by a policy":                    {policy: vhost.Arguments{"message-ttl": int64(60_000)}, want: brokererr.ErrUnproven},
			"a TTL, and a single active consumer":  {arguments: vhost.Arguments{"x-message-ttl": int64(60_000), "x-single-active-consumer": true}, want: brokererr.ErrUnproven},
			"no TTL, and a single active consumer": {arguments: vhost.Arguments{"x-single-active-consumer": true}},
		} {
			declareKnown(vh, deleter, name, test.arguments)
			left := leftover{policy: vhost.Policy{
				Name: fence.Name{Owner: deleter.Owner, Begun: time.Now()}.String(name), Definition: fence.Fence{Effective: test.policy}.Closed(),
			}}
			if err := (recovery{deleter}).checkUnheld(t.Context(), cluster, left, name); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
		}
	})
}
