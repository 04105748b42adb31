package deadletterjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A move has an AMQP connection of its own, so it could use a password that is no longer in the Secret. The end of the connection of a
// BrokerConnection stops the move. A broker that cannot be reached does not, because the move continues when the broker is back.
func TestAMoveStopsWhenTheConnectionIsClosed(t *testing.T) {
	t.Parallel()
	const waits, moves = "Ready=Unknown ConnectionNotReady Reconciling=True ConnectionNotReady ", "Ready=Unknown Moving Reconciling=True Moving "
	for name, test := range map[string]struct {
		reason string
		change func(pool *brokers.Pool, connection client.ObjectKey) error
	}{
		"the Secret is gone": {v1alpha1.ReasonSecretNotFound, func(pool *brokers.Pool, connection client.ObjectKey) error {
			pool.Close(connection)
			return nil
		}},
		"the Secret has a wrong password": {v1alpha1.ReasonAuthenticationFailed, func(pool *brokers.Pool, connection client.ObjectKey) error {
			_, err := pool.Ensure(connection, time.Time{}, rabbit.Config{Owner: "uid", Password: "wrong"})
			return err
		}},
		"the broker cannot be reached": {reason: v1alpha1.ReasonBrokerUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.begin()
			connection := client.ObjectKey{Namespace: "shop", Name: "default"}
			if test.change != nil {
				if err := test.change(w.Pool, connection); err != nil {
					t.Fatal(err)
				}
			}
			w.setConnection(metav1.ConditionFalse, test.reason)
			w.reconcile()
			stopped := w.Reconciler.Tasks.get(Key{Redrive, again}, "uid").Stopped
			topologytest.Equal(t, "stopped", test.change != nil, stopped)
			if !stopped {
				return
			}
			w.ReconcileWhenEnqueued()
			topologytest.Equal(t, "conditions without a connection", waits, readyOf(w.get()))

			w.setConnection(metav1.ConditionTrue, v1alpha1.ReasonConnected)
			if _, err := w.Pool.Ensure(connection, time.Time{}, rabbit.Config{Owner: "uid", Password: "new"}); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "conditions with a connection", moves, readyOf(w.reconcile()))
			topologytest.Equal(t, "moved before", 1, (<-w.Mover.Begun).Moved)
		})
	}
}

// setConnection sets the condition Ready of the BrokerConnection.
func (w *redriveWorld) setConnection(status metav1.ConditionStatus, reason string) {
	w.T.Helper()
	bc := &v1alpha1.BrokerConnection{}
	if err := w.API.Get(w.T.Context(), client.ObjectKey{Namespace: "shop", Name: "default"}, bc); err != nil {
		w.T.Fatal(err)
	}
	bc.Status.Conditions[0].Status, bc.Status.Conditions[0].Reason = status, reason
	if err := w.API.Status().Update(w.T.Context(), bc); err != nil {
		w.T.Fatal(err)
	}
}
