package deadletterjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A move has an AMQP connection of its own, so it could use a password that is no longer in the Secret. The closed connection of a
// BrokerConnection stops the move. A broker that cannot be reached does not, because the move continues when the broker is back.
func TestAMoveStopsWhenTheConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason         string
		closed, stops  bool
		becomes, again string // conditions when the move has ended, and when the BrokerConnection is Ready again
	}{
		"the Secret is gone": {
			v1alpha1.ReasonSecretNotFound, true, true,
			"Ready=Unknown ConnectionNotReady Reconciling=True ConnectionNotReady ", "Ready=Unknown Moving Reconciling=True Moving ",
		},
		"the Secret is invalid": {
			v1alpha1.ReasonSecretInvalid, true, true,
			"Ready=Unknown ConnectionNotReady Reconciling=True ConnectionNotReady ", "Ready=Unknown Moving Reconciling=True Moving ",
		},
		"the broker cannot be reached": {reason: v1alpha1.ReasonBrokerUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.begin()
			connection := client.ObjectKey{Namespace: "shop", Name: "default"}
			if test.closed {
				w.Pool.Close(connection)
			}
			w.setConnection(metav1.ConditionFalse, test.reason)
			w.reconcile()
			stopped := w.Reconciler.Tasks.get(Key{Redrive, again}, "uid").Stopped
			topologytest.Equal(t, "stopped", test.stops, stopped)
			if !stopped {
				return
			}
			w.ReconcileWhenEnqueued()
			topologytest.Equal(t, "conditions without a connection", test.becomes, readyOf(w.get()))

			w.setConnection(metav1.ConditionTrue, v1alpha1.ReasonConnected)
			if _, err := w.Pool.Ensure(connection, time.Time{}, rabbit.Config{Owner: "uid", Password: "new"}); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "conditions with a connection", test.again, readyOf(w.reconcile()))
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
