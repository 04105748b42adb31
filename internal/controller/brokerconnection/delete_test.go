package brokerconnection

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A BrokerConnection that is in use stays for 10 s, and while ConsumerQueues that use it are being deleted, until for
// twelve minutes none of them has come to its end.
func TestHowLongABrokerConnectionStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		since               time.Duration
		needed, terminating bool
		want                time.Duration
	}{
		"nobody needs it":                               {since: 0, want: 0},
		"just deleted, while in use":                    {since: time.Second, needed: true, want: 9 * time.Second},
		"nobody else was deleted":                       {since: 10 * time.Second, needed: true, want: 0},
		"some are being deleted":                        {since: time.Minute, needed: true, terminating: true, want: 11 * time.Minute},
		"some are being deleted and do not come to end": {since: 12 * time.Minute, needed: true, terminating: true, want: 0},
	} {
		topologytest.Equal(t, name, test.want, graceRemaining(test.since, test.needed, test.terminating))
	}
}

// testBrokerConnections reconciles BrokerConnections by a client.
func testBrokerConnections(c client.WithWatch, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		client: c, live: c, recorder: &controllertest.EventLog{}, pool: brokers.NewPool(c, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0)),
		deletions: newDeletionClock(), unneeded: retrybudget.NewFirstSeen(now), suspendedClean: retrybudget.NewFirstSeen(now),
	}
}

// Whatever the DeletionTimestamp says: what was deleted while no manager ran is waited for from when one runs. A Secret that
// is missing may come back.
func TestTerminateABrokerConnectionWithoutItsSecret(t *testing.T) {
	t.Parallel()
	const may = `policies named warren-fence-* may stand in vhost "/": they may refuse whatever is published to their queues, ` +
		`and nobody else takes them down, unless a BrokerConnection to this vhost is made again. ` +
		`List them: rabbitmqctl list_policies -p '/'; take each down: rabbitmqctl clear_policy -p '/' NAME`
	for name, test := range map[string]struct {
		suspend  bool
		never    bool // connected
		queue    func(t *testing.T) *v1alpha1.ConsumerQueue
		seen     time.Duration // ago
		progress time.Duration // ago
		free     time.Duration // ago
		stays    bool
		event    string
	}{
		"as soon as a manager runs":                   {queue: terminatingQueue, stays: true},
		"after ten minutes in which nothing happened": {queue: terminatingQueue, seen: time.Hour, progress: 10 * time.Minute, stays: true},
		"after twelve": {
			queue: terminatingQueue, seen: time.Hour, progress: 12 * time.Minute, free: time.Minute, event: may,
		},
		"while nobody else is deleted":                    {queue: usingQueue, seen: 9 * time.Second, stays: true},
		"when nobody needs it, before it was looked at":   {seen: time.Second, stays: true},
		"when nobody needs it, soon after others did":     {seen: time.Hour, free: time.Second, stays: true},
		"when it cannot be looked at":                     {seen: time.Minute, free: 30 * time.Second, event: may},
		"when nobody needs it and it never was connected": {never: true},
		"when it is suspended":                            {queue: terminatingQueue, suspend: true, event: may},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bc := controllertest.ConnectedTo("shop", "default", "rabbit@a", "/")
			if test.never {
				bc.Status.Location.ClusterName = ""
			}
			bc.Spec.SecretRef, bc.Spec.Suspend = &v1alpha1.LocalObjectReference{Name: "gone"}, test.suspend
			bc.Finalizers = []string{v1alpha1.ConnectionFinalizer}
			bc.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
			objects := []client.Object{bc}
			if test.queue != nil {
				objects = append(objects, test.queue(t))
			}
			now := clocktesting.NewFakePassiveClock(time.Now())
			r := testBrokerConnections(controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, objects...), now)
			key := client.ObjectKeyFromObject(bc)
			r.deletions.of[key] = deletionTimes{seen: now.Now().Add(-test.seen), progress: now.Now().Add(-test.progress)}
			now.SetTime(time.Now().Add(-test.free))
			r.unneeded.At(bc)
			now.SetTime(time.Now())
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			topologytest.Equal(t, "error", nil, err)
			err = r.client.Get(t.Context(), key, bc)
			topologytest.Equal(t, "stays", test.stays, err == nil)
			topologytest.Equal(t, "is looked at again", test.stays, result.RequeueAfter > 0)
			var want []string
			if test.event != "" {
				want = []string{test.event}
			}
			topologytest.Equal(t, "events", want, r.recorder.(*controllertest.EventLog).Notes)
		})
	}
}

func terminatingQueue(t *testing.T) *v1alpha1.ConsumerQueue {
	return controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{}`, ""))
}

func usingQueue(t *testing.T) *v1alpha1.ConsumerQueue {
	cq := controllertest.Synced(t, "orders", `{}`, "")
	cq.Finalizers = []string{v1alpha1.TopologyFinalizer}
	return cq
}

func TestWhatIsSaidOfFences(t *testing.T) {
	t.Parallel()
	topologytest.Equal(t, "of those that stand", `2 fences stand in vhost "sh'op": `+brokers.NobodyElse+`. Take them down: `+
		`rabbitmqctl clear_policy -p 'sh'\''op' 'warren-fence-1-ABCDEF:uid:orders'; rabbitmqctl clear_policy -p 'sh'\''op' 'warren-fence-2'`,
		fencesStand("sh'op", []string{"warren-fence-1-ABCDEF:uid:orders", "warren-fence-2"}))
}
