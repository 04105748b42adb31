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

func TestAnAttemptRunsOnceAndTellsWhenItIsOver(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := NewDeletionTasks(t.Context(), told.Tell)
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
	topologytest.Equal(t, "told", controllertest.Orders, <-told)

	for range 2 {
		known, err = attempt(time.Hour)
		topologytest.Equal(t, "known", true, known)
		topologytest.Equal(t, "result", notEmpty, err, comparingErrors)
	}
	topologytest.Equal(t, "begun meanwhile", 0, len(broker.Begun))

	known, err = attempt(0)
	<-broker.Begun
	topologytest.Equal(t, "known while the next runs", true, known)
	topologytest.Equal(t, "result of the one before", notEmpty, err, comparingErrors)
	broker.Results <- nil
	<-told
	known, err = attempt(time.Hour)
	topologytest.Equal(t, "known", true, known)
	topologytest.Equal(t, "result", nil, err)
}

func TestAttemptsForDifferentQueuesRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := NewDeletionTasks(t.Context(), told.Tell)
	broker := controllertest.NewDeleter()
	_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"one"}}, 0)
	_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"two"}}, 0)
	_, _ = r.Ensure(controllertest.Invoices, broker, "a", Group{Queues: []string{"one"}}, 0)
	begun := []string{(<-broker.Begun)[0], (<-broker.Begun)[0], (<-broker.Begun)[0]}
	slices.Sort(begun)
	topologytest.Equal(t, "begun", []string{"one", "one", "two"}, begun)
	for range 3 {
		broker.Results <- nil
		<-told
	}
}

func TestOnlyEndsAndForgetsTheOthers(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := NewDeletionTasks(t.Context(), told.Tell)
	kept, ended, theirs := controllertest.NewDeleter(), controllertest.NewDeleter(), controllertest.NewDeleter()
	_, _ = r.Ensure(controllertest.Orders, kept, "a", Group{Queues: []string{"kept"}}, 0)
	_, _ = r.Ensure(controllertest.Orders, ended, "a", Group{Queues: []string{"ended"}}, 0)
	_, _ = r.Ensure(controllertest.Invoices, theirs, "a", Group{Queues: []string{"ended"}}, 0)
	r.CancelExcept(controllertest.Orders, []string{"kept"})
	topologytest.Equal(t, "told of the one that was ended", controllertest.Orders, <-told)
	kept.Results <- nil
	topologytest.Equal(t, "told of the one that was kept", controllertest.Orders, <-told)
	theirs.Results <- nil
	topologytest.Equal(t, "told of another's", controllertest.Invoices, <-told)

	known, _ := r.Ensure(controllertest.Orders, kept, "a", Group{Queues: []string{"kept"}}, time.Hour)
	topologytest.Equal(t, "result of the one that was kept is known", true, known)
	known, _ = r.Ensure(controllertest.Orders, ended, "a", Group{Queues: []string{"ended"}}, time.Hour)
	topologytest.Equal(t, "result of the one that was ended is known", false, known)
	r.CancelExcept(controllertest.Orders)
	<-told
	known, _ = r.Ensure(controllertest.Invoices, theirs, "a", Group{Queues: []string{"ended"}}, time.Hour)
	topologytest.Equal(t, "result of another's is known", true, known)
	r.Cancel(controllertest.Orders)
	topologytest.Equal(t, "remembered", 1, len(r.of))
}

// A group is deleted one queue after the other. A reconciliation in between must not end the attempt: what it began on would
// stay without its tiers.
func TestAnAttemptIsUnderWayWhileItDeletesItsQueues(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := NewDeletionTasks(t.Context(), told.Tell)
	broker := controllertest.NewDeleter()
	_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"tier", "main"}}, 0)
	for _, test := range []struct{ exist, given, want []string }{
		{[]string{"tier", "main"}, []string{"tier", "main"}, []string{"tier", "main"}},
		{[]string{"main"}, []string{"main"}, []string{"tier", "main"}},
		{[]string{}, []string{}, []string{"tier", "main"}},
		{[]string{"tier", "main"}, []string{"main"}, []string{"main"}}, // somebody has come to want the tier
		{[]string{"tier", "main"}, []string{"tier"}, []string{"tier"}},
		{[]string{"main", "other"}, []string{"main", "other"}, []string{"main", "other"}},
	} {
		exists := func(queue string) bool { return slices.Contains(test.exist, queue) }
		topologytest.Equal(t, "group", test.want, r.Running(controllertest.Orders, test.given, exists))
		topologytest.Equal(t, "group of another", test.given, r.Running(controllertest.Invoices, test.given, exists))
	}
	broker.Results <- nil
	<-told
	topologytest.Equal(t, "group when it is over", []string{"main"}, r.Running(controllertest.Orders, []string{"main"}, func(queue string) bool { return queue == "main" }))
}

// What was deleted is remembered, for it may be there again.
func TestBack(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := NewDeletionTasks(t.Context(), told.Tell)
	broker := controllertest.NewDeleter()
	is := func(names ...string) func(string) bool {
		return func(queue string) bool { return slices.Contains(names, queue) }
	}
	for _, result := range []error{errors.New("it is not empty"), nil} {
		queue, _ := r.Reappeared(controllertest.Orders, is("tier", "main"))
		topologytest.Equal(t, "back before it was deleted", "", queue)
		_, _ = r.Ensure(controllertest.Orders, broker, "a", Group{Queues: []string{"tier", "main"}}, 0)
		broker.Results <- result
		<-told
	}
	r.CancelExcept(controllertest.Orders)
	for _, test := range []struct {
		exist []string
		want  string
	}{{nil, ""}, {[]string{"other"}, ""}, {[]string{"main", "other"}, "main"}, {[]string{"tier", "main"}, "main"}} {
		queue, since := r.Reappeared(controllertest.Orders, is(test.exist...))
		topologytest.Equal(t, "back", test.want, queue)
		topologytest.Equal(t, "since", true, since >= 0 && since < time.Minute)
	}
	queue, _ := r.Reappeared(controllertest.Invoices, is("main"))
	topologytest.Equal(t, "back of another's", "", queue)
	r.Cancel(controllertest.Orders)
	queue, _ = r.Reappeared(controllertest.Orders, is("main"))
	topologytest.Equal(t, "back of what is forgotten", "", queue)
}

// When the manager stops, attempts are rolled back.
func TestAttemptsEndWithTheManager(t *testing.T) {
	t.Parallel()
	lifetime, stop := context.WithCancel(t.Context())
	told := make(controllertest.Told, 1)
	r := NewDeletionTasks(lifetime, func(key client.ObjectKey) { told <- key })
	_, _ = r.Ensure(controllertest.Orders, controllertest.NewDeleter(), "a", Group{Queues: []string{"one"}}, 0)
	stop()
	<-told
	known, err := r.Ensure(controllertest.Orders, controllertest.NewDeleter(), "a", Group{Queues: []string{"one"}}, time.Hour)
	topologytest.Equal(t, "known", true, known)
	topologytest.Equal(t, "result", context.Canceled, err, comparingErrors)
}

// comparingErrors takes errors for equal that are one.
var comparingErrors = cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) && errors.Is(b, a) })
