package brokers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestATaskRunsOnceAndEnqueuesTheResourceAtItsEnd(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := NewDeletionTasks(t.Context(), enqueued.Enqueue)
	broker, notEmpty := controllertest.NewDeleter(), errors.New("it is not empty")
	attempt := func(again time.Duration) (bool, error) {
		return r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"tier", "main"}}, again)
	}

	known, err := attempt(0)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "known at first", false, known)
	topologytest.Equal(t, "queues", []string{"tier", "main"}, <-broker.Begun)
	known, _ = attempt(0)
	topologytest.Equal(t, "known while it runs", false, known)
	broker.Results <- notEmpty
	topologytest.Equal(t, "enqueued", controllertest.Orders, <-enqueued)

	for range 2 {
		known, err = attempt(time.Hour)
		topologytest.Equal(t, "known", true, known)
		topologytest.Equal(t, "result", notEmpty, err, comparingErrors)
	}
	topologytest.Equal(t, "begun in the meantime", 0, len(broker.Begun))

	known, err = attempt(0)
	<-broker.Begun
	topologytest.Equal(t, "known while the next runs", true, known)
	topologytest.Equal(t, "result of the previous task", notEmpty, err, comparingErrors)
	broker.Results <- nil
	<-enqueued
	known, err = attempt(time.Hour)
	topologytest.Equal(t, "known", true, known)
	topologytest.Equal(t, "result", nil, err)
}

func TestTasksForDifferentQueuesRunConcurrently(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := NewDeletionTasks(t.Context(), enqueued.Enqueue)
	broker := controllertest.NewDeleter()
	_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"one"}}, 0)
	_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"two"}}, 0)
	_, _ = r.Ensure(controllertest.Invoices, broker, "a", Group{Queues: []string{"one"}}, 0)
	begun := []string{(<-broker.Begun)[0], (<-broker.Begun)[0], (<-broker.Begun)[0]}
	slices.Sort(begun)
	topologytest.Equal(t, "begun", []string{"one", "one", "two"}, begun)
	for range 3 {
		broker.Results <- nil
		<-enqueued
	}
}

func TestCancelExceptCancelsAndForgetsOtherTasks(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := NewDeletionTasks(t.Context(), enqueued.Enqueue)
	kept, ended, theirs := controllertest.NewDeleter(), controllertest.NewDeleter(), controllertest.NewDeleter()
	_, _ = r.Ensure(controllertest.Orders, kept, "a", Group{Queues: []string{"kept"}}, 0)
	_, _ = r.Ensure(controllertest.Orders, ended, "a", Group{Queues: []string{"ended"}}, 0)
	_, _ = r.Ensure(controllertest.Invoices, theirs, "a", Group{Queues: []string{"ended"}}, 0)
	r.CancelExcept(controllertest.Orders, []string{"kept"})
	topologytest.Equal(t, "enqueued after the cancelled task", controllertest.Orders, <-enqueued)
	kept.Results <- nil
	topologytest.Equal(t, "enqueued after the kept task", controllertest.Orders, <-enqueued)
	theirs.Results <- nil
	topologytest.Equal(t, "enqueued after the task of another ConsumerQueue", controllertest.Invoices, <-enqueued)

	known, _ := r.Ensure(controllertest.Orders, kept, "a", Group{Queues: []string{"kept"}}, time.Hour)
	topologytest.Equal(t, "result of the kept task is known", true, known)
	known, _ = r.Ensure(controllertest.Orders, ended, "a", Group{Queues: []string{"ended"}}, time.Hour)
	topologytest.Equal(t, "result of the cancelled task is known", false, known)
	r.CancelExcept(controllertest.Orders)
	<-enqueued
	known, _ = r.Ensure(controllertest.Invoices, theirs, "a", Group{Queues: []string{"ended"}}, time.Hour)
	topologytest.Equal(t, "result of another ConsumerQueue's task is known", true, known)
	r.Cancel(controllertest.Orders)
	topologytest.Equal(t, "remembered", 1, len(r.of))
}

// A task deletes the queues of its group one by one. A reconciliation in between must not cancel the task: the main queue would
// remain without its delay tiers.
func TestRunningReturnsTheGroupWhileItsQueuesAreDeleted(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := NewDeletionTasks(t.Context(), enqueued.Enqueue)
	broker := controllertest.NewDeleter()
	_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"tier", "main"}}, 0)
	for _, test := range []struct{ exist, given, want []string }{
		{[]string{"tier", "main"}, []string{"tier", "main"}, []string{"tier", "main"}},
		{[]string{"main"}, []string{"main"}, []string{"tier", "main"}},
		{[]string{}, []string{}, []string{"tier", "main"}},
		{[]string{"tier", "main"}, []string{"main"}, []string{"main"}}, // another ConsumerQueue wants the tier now
		{[]string{"tier", "main"}, []string{"tier"}, []string{"tier"}},
		{[]string{"main", "other"}, []string{"main", "other"}, []string{"main", "other"}},
	} {
		exists := func(queue string) bool { return slices.Contains(test.exist, queue) }
		topologytest.Equal(t, "group", test.want, r.WholeGroup(controllertest.Orders, test.given, exists))
		topologytest.Equal(t, "group of another", test.given, r.WholeGroup(controllertest.Invoices, test.given, exists))
	}
	broker.Results <- nil
	<-enqueued
	topologytest.Equal(t, "group after the task ended", []string{"main"}, r.WholeGroup(controllertest.Orders, []string{"main"}, func(queue string) bool { return queue == "main" }))
}

// A deleted queue is remembered, because a client may declare it again.
func TestReappeared(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := NewDeletionTasks(t.Context(), enqueued.Enqueue)
	broker := controllertest.NewDeleter()
	is := func(names ...string) func(string) bool {
		return func(queue string) bool { return slices.Contains(names, queue) }
	}
	for _, result := range []error{errors.New("it is not empty"), nil} {
		queue, _ := r.Reappeared(controllertest.Orders, is("tier", "main"))
		topologytest.Equal(t, "reappeared before it was deleted", "", queue)
		_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"tier", "main"}}, 0)
		broker.Results <- result
		<-enqueued
	}
	r.CancelExcept(controllertest.Orders)
	for _, test := range []struct {
		exist []string
		want  string
	}{{nil, ""}, {[]string{"other"}, ""}, {[]string{"main", "other"}, "main"}, {[]string{"tier", "main"}, "main"}} {
		queue, since := r.Reappeared(controllertest.Orders, is(test.exist...))
		topologytest.Equal(t, "reappeared", test.want, queue)
		topologytest.Equal(t, "since", true, since >= 0 && since < time.Minute)
	}
	queue, _ := r.Reappeared(controllertest.Invoices, is("main"))
	topologytest.Equal(t, "reappeared for another ConsumerQueue", "", queue)
	r.Cancel(controllertest.Orders)
	queue, _ = r.Reappeared(controllertest.Orders, is("main"))
	topologytest.Equal(t, "reappeared after Cancel", "", queue)
}

// A task that is cancelled rolls its deletion back.
func TestTasksAreCancelledWithTheManager(t *testing.T) {
	t.Parallel()
	lifetime, stop := context.WithCancel(t.Context())
	enqueued := make(controllertest.Enqueued, 1)
	r := NewDeletionTasks(lifetime, func(key client.ObjectKey) { enqueued <- key })
	_, _ = r.Ensure(controllertest.Orders, controllertest.NewDeleter(), "a", Group{Queues: []string{"one"}}, 0)
	stop()
	<-enqueued
	known, err := r.Ensure(controllertest.Orders, controllertest.NewDeleter(), "a", Group{Queues: []string{"one"}}, time.Hour)
	topologytest.Equal(t, "known", true, known)
	topologytest.Equal(t, "result", context.Canceled, err, comparingErrors)
}

// comparingErrors compares errors by identity.
var comparingErrors = cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) && errors.Is(b, a) })
