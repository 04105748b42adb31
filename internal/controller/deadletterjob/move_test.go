package deadletterjob

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// A running move does not learn new rules: it would take messages of the other ConsumerQueue, or messages that the broker may delete.
func TestAMoveBeginsAnewWhenItsRulesChange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(w *redriveWorld)
		follows func(config mover.Config) bool
	}{
		"another ConsumerQueue shares the dead-letter queue": {
			change:  func(w *redriveWorld) { w.shared = true },
			follows: func(config mover.Config) bool { return config.Selective },
		},
		"a policy limits the deliveries of a message": {
			change: func(w *redriveWorld) {
				w.Broker.Change(func(s *snapshot.Snapshot) {
					s.Policies = append(s.Policies, vhost.Policy{
						Name: "limits", Pattern: vhost.ReadPattern("^orders.dlq$"), ApplyTo: "queues",
						Definition: vhost.Arguments{vhost.KeyDeliveryLimit: int64(5)},
					})
				})
			},
			follows: func(config mover.Config) bool { return config.DeliveryLimited },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			topologytest.Equal(t, "follows the new rule at first", false, test.follows(w.begin()))
			test.change(w)
			w.stopsMove()
			w.ReconcileWhenEnqueued()
			topologytest.Equal(t, "follows the new rule", true, test.follows(<-w.Mover.Begun))
		})
	}
}

// stopsMove reconciles the Redrive, and ends the test if that does not stop the move.
func (w *redriveWorld) stopsMove() {
	w.T.Helper()
	w.Reconcile()
	if !w.Reconciler.Tasks.begun(Redrive)[Key{Redrive, again}].Stopped {
		w.T.Fatal("the old move continues")
	}
}

// replace deletes the Redrive, and creates another one of the same name.
func (w *redriveWorld) replace() {
	w.T.Helper()
	redrive := w.get()
	if err := w.API.Delete(w.T.Context(), redrive); err != nil {
		w.T.Fatal(err)
	}
	redrive.UID, redrive.ResourceVersion, redrive.Status = "another-uid", "", v1alpha1.RedriveStatus{}
	if err := w.API.Create(w.T.Context(), redrive); err != nil {
		w.T.Fatal(err)
	}
}

// kubectl replace --force may delete and create a Redrive before the deletion is reconciled.
func TestAReplacedRedriveEndsTheMoveOfTheDeletedOne(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.begin()
	w.replace()
	w.stopsMove()
	w.Reconciler.Tasks.statuses[Redrive].Forget(again) // the API server in memory counts the versions of a new object from 1
	w.ReconcileWhenEnqueued()
	topologytest.Equal(t, "moved before by the new Redrive", 0, (<-w.Mover.Begun).Moved)
}
