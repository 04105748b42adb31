package safedelete_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A process that loses its lease during a deletion deletes nothing from then on, and leaves its fence to the next leader.
func TestLostLease(t *testing.T) {
	t.Parallel()
	for step, sentinels := range map[string]int{
		safedelete.StepPrechecked: 0, safedelete.StepFenced: 0, safedelete.StepProven: 2, safedelete.StepSettled: 2,
	} {
		t.Run(step, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				vh.DeclareQueue("orders", rabbittest.Quorum(nil))
				var lost atomic.Bool
				config := rabbittest.ConfigOf(vh)
				config.Owner = "owner"
				config.HoldsLease = func() bool { return !lost.Load() }
				connection := rabbittest.Connected(t, config, nil)
				definitions := func() (all []vhost.Arguments) {
					policies, err := connection.API.Policies(t.Context())
					if err != nil {
						t.Error(err)
					}
					for _, policy := range policies {
						all = append(all, policy.Definition)
					}
					return all
				}
				var before []vhost.Arguments
				connection.Deleter.Crash = func(now string) bool {
					if now == step {
						before = definitions()
						lost.Store(true)
					}
					return true
				}
				if err := deleteNow(t.Context(), connection, "orders"); !errors.Is(err, brokererr.ErrNotLeader) {
					t.Error(err)
				}
				err := connection.Remove(t.Context(), connection.Health().Cluster.Key(), rabbit.Removal{Queues: []string{"orders"}})
				if !errors.Is(err, brokererr.ErrNotLeader) {
					t.Error(err)
				}
				for range 2 { // a connection removes its own fence after a refresh
					if err := connection.Refresh(t.Context()); err != nil {
						t.Error(err)
					}
				}
				connection.Close()
				if difference := cmp.Diff(before, definitions()); difference != "" {
					t.Errorf("the fence was changed: %s", difference)
				}
				rabbittest.Holds(t, vh, "orders", sentinels)

				config.HoldsLease = nil
				successor := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
				NewWithT(t).Eventually(func() error { return deleteNow(t.Context(), successor, "orders") }).
					WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(Succeed())
				mustBeClean(t, vh)
			})
		})
	}
}

// A process that loses its lease during a recreation declares, binds and unbinds nothing from then on.
func TestLostLeaseDuringARecreation(t *testing.T) {
	t.Parallel()
	for _, step := range []string{recreate.StepProbed, recreate.StepHoldDeclared, recreate.StepRecorded, recreate.StepHoldBound} {
		t.Run(step, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				vh.DeclareQueue("orders", rabbittest.Quorum(nil))
				vh.DeclareExchange("events", "topic", nil)
				vh.Bind("events", "orders", "order.*", nil)
				var lost atomic.Bool
				config := rabbittest.ConfigOf(vh)
				config.HoldsLease = func() bool { return !lost.Load() }
				connection := rabbittest.Connected(t, config, nil)
				recreator := connection.Recreator(connection.Health().Cluster.Key())
				var before string
				recreator.Crash = func(now string) bool {
					if now == step {
						before = string(vh.Export())
						lost.Store(true)
					}
					return true
				}
				rec := recreate.Recreation{ID: recreate.NewID("shop/orders"), Queue: topology.Queue{Name: "orders", Arguments: rabbittest.Quorum(nil)}}
				err := recreator.Divert(t.Context(), rec, func(context.Context, []vhost.Binding) error { return nil })
				if !errors.Is(err, brokererr.ErrNotLeader) {
					t.Error(err)
				}
				if difference := cmp.Diff(before, string(vh.Export())); difference != "" {
					t.Errorf("the vhost was changed: %s", difference)
				}
			})
		})
	}
}
