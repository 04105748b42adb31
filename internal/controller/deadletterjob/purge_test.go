package deadletterjob

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// purgeWorld is a world with the ConsumerQueue orders in sync, nine dead letters, and a Purge named again.
type purgeWorld struct{ *world }

func purgeOf(t *testing.T, spec string) *v1alpha1.Purge {
	t.Helper()
	purge := created(&v1alpha1.Purge{}, "again", 1)
	if err := yaml.UnmarshalStrict([]byte(spec), &purge.Spec); err != nil {
		t.Fatal(err)
	}
	return purge
}

// newPurgeWorld returns a purgeWorld whose moves run until the test ends them.
func newPurgeWorld(t *testing.T, spec string) *purgeWorld {
	t.Helper()
	w := &purgeWorld{newWorld(t, controllertest.InSync(t, `{}`), Purge, purgeOf(t, spec))}
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	return w
}

func (w *purgeWorld) get() *v1alpha1.Purge {
	w.T.Helper()
	purge := &v1alpha1.Purge{}
	if err := w.API.Get(w.T.Context(), again, purge); err != nil {
		w.T.Fatal(err)
	}
	return purge
}

func (w *purgeWorld) ready() string { return readyText(w.get().Status.Conditions) }

// count reconciles until the count has ended and has found this many matching messages.
func (w *purgeWorld) count(matching int) {
	w.T.Helper()
	w.Reconcile()
	topologytest.Equal(w.T, "counts", true, (<-w.Mover.Begun).DryRun)
	w.Mover.Ended = mover.Progress{
		State: mover.Moving, Moved: matching, Skipped: map[string]int{"NotSelected": 9 - matching}, Consumers: w.Mover.Ended.Consumers,
	}
	w.Mover.End <- nil
	for w.get().Status.Matched == nil {
		w.ReconcileWhenEnqueued()
	}
}

// end ends the move, and reconciles until the Purge has ended.
func (w *purgeWorld) end(progress mover.Progress, err error) {
	w.T.Helper()
	w.Mover.Ended = progress
	w.Mover.End <- err
	for w.get().Status.CompletionTime == nil {
		w.ReconcileWhenEnqueued()
	}
}

const atMost5 = `{consumerQueueRef: {name: orders}, expectedAtMost: 5}`

func TestAPurgeCountsBeforeItDeletes(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.Reconcile()
	topologytest.Equal(t, "conditions of a count", "Ready=Unknown Counting Reconciling=True Counting ", w.ready())
	config := <-w.Mover.Begun
	topologytest.Equal(t, "counts", []bool{true, false}, []bool{config.DryRun, config.Delete})
	topologytest.Equal(t, "counts at most", 9, config.Total)
	w.Mover.Ended = mover.Progress{State: mover.Moving, Moved: 5, Skipped: map[string]int{"NotSelected": 4}}
	w.Mover.End <- nil
	for w.get().Status.Matched == nil {
		w.ReconcileWhenEnqueued()
	}
	status := w.get().Status
	topologytest.Equal(t, "matched", 5, *status.Matched)
	topologytest.Equal(t, "deleted", 0, *status.Deleted)
	topologytest.Equal(t, "claimed", 5, *status.AtMost)
	topologytest.Equal(t, "conditions of a deletion", "Ready=Unknown Deleting Reconciling=True Deleting ", w.ready())
	config = <-w.Mover.Begun
	topologytest.Equal(t, "deletes", []bool{false, true}, []bool{config.DryRun, config.Delete})
	topologytest.Equal(t, "deletes at most", 5, config.Limit)
	topologytest.Equal(t, "reads at most", 9, config.Total)

	w.end(mover.Progress{State: mover.Moving, Moved: 5, Skipped: map[string]int{"NotSelected": 1}}, nil)
	status = w.get().Status
	topologytest.Equal(t, "conditions", "Ready=True Completed Complete=True Completed ", w.ready())
	topologytest.Equal(t, "deleted", 5, *status.Deleted)
	topologytest.Equal(t, "deleted is exact", true, status.AtMost == nil)
	topologytest.Equal(t, "skipped, of the count", map[string]int64{"NotSelected": 4}, status.Skipped)
	topologytest.Equal(t, "examined, of the count", 9, *status.Examined)
	topologytest.Equal(t, "Events", []string{"Started", "Completed", "Purged"}, w.Events.Reasons)
}

// A backup keeps annotations, and drops the status.
func TestARestoredPurgeDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	purge := w.get()
	purge.Annotations = map[string]string{v1alpha1.CompletedAtAnnotation: "2026-01-01T00:00:00Z"}
	if err := w.API.Update(t.Context(), purge); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	topologytest.Equal(t, "conditions", "Ready=True AlreadyFinished Complete=True AlreadyFinished ", w.ready())
	topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
}

func TestAPurgeThatIsCreatedAgainDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.count(5)
	<-w.Mover.Begun
	w.end(mover.Progress{State: mover.Moving, Moved: 5}, nil)
	if err := w.API.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	if err := w.API.Create(t.Context(), purgeOf(t, atMost5)); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	topologytest.Equal(t, "conditions", "Ready=True AlreadyFinished Complete=True AlreadyFinished ", w.ready())
	topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
}

func TestAPurgeThatEndsAfterTheCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec, want, message string
		matching, consumers int
	}{
		"more messages match than expected": {
			atMost5, "Ready=False MoreThanExpected Stalled=True MoreThanExpected Failed=True MoreThanExpected ",
			"6 messages match, and spec.expectedAtMost is 5: no message was deleted. Create another Purge with a narrower selector or a higher expectedAtMost, " +
				"3 skipped (NotSelected)", 6, 0,
		},
		"no message matches": {atMost5, "Ready=True Completed Complete=True Completed ", "deleted 0 of 0 messages that match, 9 skipped (NotSelected)", 0, 0},
		"no message matches, and another consumer may hold some": {
			atMost5, "Ready=False Incomplete Stalled=True Incomplete Failed=True Incomplete ",
			`deleted 0 of 0 messages that match, 9 skipped (NotSelected), and another consumer of queue "orders.dlq" may hold messages that were ` +
				"not seen. Stop that consumer, then count the remaining messages", 0, 1,
		},
		"a dry run": {
			`{consumerQueueRef: {name: orders}, expectedAtMost: 5, dryRun: true}`, "Ready=True DryRun Complete=True DryRun ",
			"5 of 9 messages would be deleted, 4 skipped (NotSelected)", 5, 0,
		},
		"a dry run while another consumer may hold messages": {
			`{consumerQueueRef: {name: orders}, expectedAtMost: 5, dryRun: true}`, "Ready=False Incomplete Stalled=True Incomplete Failed=True Incomplete ",
			`5 of 9 messages would be deleted, 4 skipped (NotSelected), and another consumer of queue "orders.dlq" may hold messages that were ` +
				"not seen. Stop that consumer, then count the remaining messages", 5, 1,
		},
		"a dry run with more than expected": {
			`{consumerQueueRef: {name: orders}, expectedAtMost: 5, dryRun: true}`, "Ready=True DryRun Complete=True DryRun ",
			"none of 9 messages would be deleted: 6 messages match, and spec.expectedAtMost is 5, 3 skipped (NotSelected)", 6, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurgeWorld(t, test.spec)
			w.Mover.Ended.Consumers = test.consumers
			w.count(test.matching)
			status := w.get().Status
			topologytest.Equal(t, "conditions", test.want, w.ready())
			topologytest.Equal(t, "message", test.message, status.Conditions[0].Message)
			topologytest.Equal(t, "matched", test.matching, int(*status.Matched))
			topologytest.Equal(t, "deleted", 0, *status.Deleted)
			topologytest.Equal(t, "has ended", true, status.CompletionTime != nil)
			topologytest.Equal(t, "deletions", 0, len(w.Mover.Begun))
		})
	}
}

// The next manager must know from the status that messages may have been deleted.
func TestTheStatusIsWrittenBeforeMessagesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.Reconcile()
	<-w.Mover.Begun
	w.Mover.Ended = mover.Progress{Moved: 5}
	w.Mover.End <- nil
	topologytest.Equal(t, "enqueued", again, <-w.Enqueued)
	w.Reconciler.Client = refusing{w.API}
	if _, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err == nil {
		t.Fatal("Reconcile hides that the status cannot be written")
	}
	topologytest.Equal(t, "moves without a status", 0, len(w.Mover.Begun))
	w.Reconciler.Client = w.API
	w.Reconcile()
	topologytest.Equal(t, "deletes", true, (<-w.Mover.Begun).Delete)
	topologytest.Equal(t, "the status reports the deletion", true, isDeleting(&w.get().Status))
}

// The status may already have the count of a task that has not been dropped.
func TestAPurgeDeletesWhatItCountedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.Reconcile()
	<-w.Mover.Begun
	w.Mover.Ended = mover.Progress{State: mover.Moving, Moved: 5, Skipped: map[string]int{"NotSelected": 4}}
	w.Mover.End <- nil
	topologytest.Equal(t, "enqueued", again, <-w.Enqueued)
	w.LoseAnswer()
	topologytest.Equal(t, "matched", 5, *w.get().Status.Matched)
	w.Reconcile()
	topologytest.Equal(t, "deleted", 0, *w.get().Status.Deleted)
	if ready := w.ready(); ready != "Ready=Unknown Deleting Reconciling=True Deleting " {
		t.Fatal(ready)
	}
	topologytest.Equal(t, "deletes", true, (<-w.Mover.Begun).Delete)
}

// After a crash the next manager does not know how many messages are deleted, so it deletes no more.
func TestTheNextManagerDeletesNothingAfterACrash(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.count(5)
	config := <-w.Mover.Begun
	config.Report(mover.Progress{State: mover.Moving, Moved: 4, Unsure: 1})
	w.Reconciler.Now = func() time.Time { return time.Now().Add(10 * time.Second) } // a write is due
	w.Reconcile()
	topologytest.Equal(t, "deleted for certain", 3, *w.get().Status.Deleted)

	w.HoldMoves()
	w.Reconcile()
	status := w.get().Status
	topologytest.Equal(t, "conditions", "Ready=False Interrupted Stalled=True Interrupted Failed=True Interrupted ", w.ready())
	if want := "at least 3 and at most 5"; !strings.Contains(status.Conditions[0].Message, want) {
		t.Errorf("message %q lacks %q", status.Conditions[0].Message, want)
	}
	topologytest.Equal(t, "deleted at most", 5, *status.AtMost)
	topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
	topologytest.Equal(t, "Events", []string{"Started", "Failed", "Purged"}, w.Events.Reasons)
}

// After a crash during the count, the next manager counts again.
func TestTheNextManagerCountsAgain(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.Reconcile()
	<-w.Mover.Begun
	w.Broker.SetMessages("orders.dlq", 100)
	w.HoldMoves()
	w.Reconcile()
	config := <-w.Mover.Begun
	topologytest.Equal(t, "counts", true, config.DryRun)
	topologytest.Equal(t, "messages at the beginning", 9, config.Total)
}

// A manager that stops normally writes exactly how many messages are deleted, and the next manager continues.
func TestTheNextManagerContinuesAfterAStop(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unsure int
		want   string
	}{
		"every deletion is known":     {0, "Ready=Unknown Deleting Reconciling=True Deleting "},
		"two deletions are uncertain": {2, "Ready=False Interrupted Stalled=True Interrupted Failed=True Interrupted "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurgeWorld(t, atMost5)
			stopping, stop := context.WithCancel(t.Context())
			w.Reconciler.Tasks = w.Tasks(stopping)
			w.count(5)
			<-w.Mover.Begun
			w.Mover.Stopped = mover.Progress{State: mover.Moving, Moved: 3, Unsure: test.unsure}
			stopped := make(chan error)
			go func() { stopped <- w.Reconciler.Start(stopping) }()
			stop()
			topologytest.Equal(t, "error", nil, <-stopped)
			topologytest.Equal(t, "deleted", 3-test.unsure, int(*w.get().Status.Deleted))
			topologytest.Equal(t, "more may be deleted", test.unsure > 0, isDeleting(&w.get().Status))

			w.HoldMoves()
			w.Reconcile()
			topologytest.Equal(t, "conditions", test.want, w.ready())
			if test.unsure == 0 {
				config := <-w.Mover.Begun
				topologytest.Equal(t, "deleted before", 3, config.Moved)
				topologytest.Equal(t, "deletes at most", 5, config.Limit)
			}
			topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
		})
	}
}

func TestOutcomeOfADeletion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		progress mover.Progress
		err      error
		want     string
		message  string
		deleted  int
	}{
		"another consumer has taken messages": {
			mover.Progress{Moved: 3}, nil, "Ready=False Incomplete Stalled=True Incomplete Failed=True Incomplete ", "deleted 3 of 5 messages that match, 4 skipped (NotSelected), " +
				`2 not seen again after the count: another consumer of queue "orders.dlq" holds them or has taken them`, 3,
		},
		"another consumer may hold messages that were not counted": {
			mover.Progress{Moved: 5, Consumers: 1}, nil, "Ready=False Incomplete Stalled=True Incomplete Failed=True Incomplete ", "deleted 5 of 5 messages that match, " +
				`4 skipped (NotSelected), and another consumer of queue "orders.dlq" may hold messages that were not seen`, 5,
		},
		"the connection was cut": {
			mover.Progress{Moved: 4, Unsure: 2},
			mover.ErrInterrupted, "Ready=False Interrupted Stalled=True Interrupted Failed=True Interrupted ",
			"the manager or its connection ended while Warren was deleting messages of queue " +
				"\"orders.dlq\": at least 2 and at most 4 of them are deleted. Count the remaining messages, then create another Purge", 2,
		},
		"a message cannot be delivered": {
			mover.Progress{Moved: 1}, mover.ErrUnreadable, "Ready=False UnreadableMessage Stalled=True UnreadableMessage Failed=True UnreadableMessage ", "", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurgeWorld(t, atMost5)
			w.count(5)
			<-w.Mover.Begun
			w.end(test.progress, test.err)
			status := w.get().Status
			topologytest.Equal(t, "conditions", test.want, w.ready())
			if !strings.Contains(status.Conditions[0].Message, test.message) {
				t.Errorf("message %q, want %q", status.Conditions[0].Message, test.message)
			}
			topologytest.Equal(t, "deleted", test.deleted, int(*status.Deleted))
		})
	}
}

// A user suspends a Purge while it deletes, and resumes it.
func TestASuspendedPurgeResumes(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.count(5)
	w.suspendAfter(2)
	topologytest.Equal(t, "conditions", "Ready=Unknown Suspended Suspended=True Suspended ", w.ready())
	topologytest.Equal(t, "deleted", 2, *w.get().Status.Deleted)
	w.suspend(false)
	w.Reconcile()
	config := <-w.Mover.Begun
	topologytest.Equal(t, "deletes without another count", true, config.Delete && !config.DryRun)
	topologytest.Equal(t, "deleted before", 2, config.Moved)
}

// suspendAfter suspends the Purge while it deletes. It has deleted so many messages when it stops.
func (w *purgeWorld) suspendAfter(deleted int) {
	w.T.Helper()
	<-w.Mover.Begun
	w.Mover.Stopped = mover.Progress{State: mover.Moving, Moved: deleted}
	w.suspend(true)
	w.Reconcile()
	for w.get().Status.AtMost != nil {
		w.ReconcileWhenEnqueued()
	}
}

func (w *purgeWorld) suspend(suspend bool) {
	w.T.Helper()
	purge := w.get()
	purge.Spec.Suspend = suspend
	if err := w.API.Update(w.T.Context(), purge); err != nil {
		w.T.Fatal(err)
	}
}

func TestWhyAPurgeDeletesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   string
		broker func(*brokerstest.Broker)
		want   string
	}{
		"there is no such ConsumerQueue": {
			spec: `{consumerQueueRef: {name: gone}, expectedAtMost: 1}`, want: "Ready=False ConsumerQueueNotFound Stalled=True ConsumerQueueNotFound ",
		},
		"the selector does not compile": {
			spec: `{consumerQueueRef: {name: orders}, expectedAtMost: 1, selector: {expression: "size >"}}`,
			want: "Ready=False InvalidSelector Stalled=True InvalidSelector ",
		},
		"the broker refuses to count": {
			broker: func(b *brokerstest.Broker) { b.Fail(vhost.QueueID("orders.dlq"), brokererr.ErrAccessRefused) },
			want:   "Ready=False PermissionDenied Stalled=True PermissionDenied ",
		},
		"cancelled before the count": {
			spec: `{consumerQueueRef: {name: orders}, expectedAtMost: 1, cancel: true}`, want: "Ready=True Cancelled Complete=True Cancelled ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := atMost5
			if test.spec != "" {
				spec = test.spec
			}
			w := newPurgeWorld(t, spec)
			if test.broker != nil {
				test.broker(w.Broker)
			}
			w.Reconcile()
			topologytest.Equal(t, "conditions", test.want, w.ready())
			topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
		})
	}
}

// Warren refuses to read a dead-letter queue with a delivery limit, whatever is selected.
func TestAQueueWithADeliveryLimit(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{
		"all":       `{consumerQueueRef: {name: orders}, expectedAtMost: 9}`,
		"some":      `{consumerQueueRef: {name: orders}, expectedAtMost: 9, selector: {reasons: [Parked]}}`,
		"a dry run": `{consumerQueueRef: {name: orders}, expectedAtMost: 9, dryRun: true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := controllertest.InSync(t, `{deadLetter: {queue: {deliveryLimit: 5}}}`)
			w := &purgeWorld{newWorld(t, cq, Purge, purgeOf(t, spec))}
			w.HoldMoves()
			w.Reconcile()
			topologytest.Equal(t, "conditions", "Ready=False DeliveryLimited Stalled=True DeliveryLimited ", w.ready())
			topologytest.Equal(t, "moves", 0, len(w.Mover.Begun))
		})
	}
}

// While another job has the turn, the count is kept and nothing counts as deleted.
func TestAPurgeThatWaitsBetweenCountAndDeletion(t *testing.T) {
	t.Parallel()
	w := newPurgeWorld(t, atMost5)
	w.Reconcile()
	<-w.Mover.Begun
	redrive := created(&v1alpha1.Redrive{}, "older", 0)
	redrive.Spec.ConsumerQueueRef.Name = "orders"
	if err := w.API.Create(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	redrive.Status.Total = new(int64(9)) // it began, and was suspended until now
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	w.Mover.Ended = mover.Progress{State: mover.Moving, Moved: 5}
	w.Mover.End <- nil
	w.ReconcileWhenEnqueued()
	for range 2 {
		status := w.get().Status
		topologytest.Equal(t, "conditions", "Ready=Unknown Queued Reconciling=True Queued ", w.ready())
		topologytest.Equal(t, "matched", 5, *status.Matched)
		topologytest.Equal(t, "deleted", 0, *status.Deleted)
		topologytest.Equal(t, "is deleting", false, isDeleting(&status))
		w.Reconcile()
	}
	redrive.Status.CompletionTime = new(metav1.Now())
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	config := <-w.Mover.Begun
	topologytest.Equal(t, "deletes", true, config.Delete)
	topologytest.Equal(t, "deletes at most", 5, config.Limit)
}

// Between the count and the deletion, a Redrive of another ConsumerQueue may have taken messages of a shared queue. They belong to the
// other ConsumerQueue, so the count still holds, except for messages of unknown origin.
func TestACountedPurgeAfterARedriveOfASharingConsumerQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, want string }{
		"without messages of unknown origin": {atMost5, "Ready=Unknown Deleting Reconciling=True Deleting "},
		"with messages of unknown origin": {
			`{consumerQueueRef: {name: orders}, expectedAtMost: 5, selector: {unknownOrigin: true}}`,
			"Ready=False Incomplete Stalled=True Incomplete Failed=True Incomplete ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurgeWorld(t, test.spec)
			w.shared = true
			w.count(5)
			w.suspendAfter(2)
			redrive := created(&v1alpha1.Redrive{}, "other", 2)
			redrive.Spec.ConsumerQueueRef.Name = "invoices"
			redrive.Status.JobStatus = w.get().Status.JobStatus
			redrive.Status.StartTime = new(metav1.NewTime(time.Now().Add(time.Minute)))
			redrive.Status.CompletionTime = redrive.Status.StartTime
			if err := w.API.Create(t.Context(), redrive); err != nil {
				t.Fatal(err)
			}
			w.suspend(false)
			w.Reconcile()
			topologytest.Equal(t, "conditions", test.want, w.ready())
		})
	}
}

// Only one job at a time takes messages from a queue.
func TestAPurgeWaitsForARedrive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		second int
		change func(*v1alpha1.Redrive)
		want   string
	}{
		"an older Redrive":                {0, nil, "Queued"},
		"a newer Redrive":                 {2, nil, "Counting"},
		"a newer Redrive that has begun":  {2, func(r *v1alpha1.Redrive) { r.Status.Total = new(int64(9)) }, "Queued"},
		"an older Redrive that has ended": {0, func(r *v1alpha1.Redrive) { r.Status.CompletionTime = new(metav1.Now()) }, "Counting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurgeWorld(t, atMost5)
			redrive := created(&v1alpha1.Redrive{}, "again", test.second) // a Redrive and a Purge may have the same name
			redrive.Spec.ConsumerQueueRef.Name = "orders"
			if err := w.API.Create(t.Context(), redrive.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				stored := &v1alpha1.Redrive{}
				if err := w.API.Get(t.Context(), again, stored); err != nil {
					t.Fatal(err)
				}
				test.change(stored)
				if err := w.API.Status().Update(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
			}
			w.Reconcile()
			topologytest.Equal(t, "reason", test.want, w.get().Status.Conditions[0].Reason)
			if test.want == "Queued" {
				topologytest.Equal(t, "message", `Redrive "again" comes first, and has not ended`, w.get().Status.Conditions[0].Message)
			}
		})
	}
}
