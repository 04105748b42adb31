package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deleter is a broker that takes its time: each deletion goes on until it is given a result or its context ends.
type deleter struct {
	begun   chan []string
	results chan error
}

func newDeleter() *deleter {
	return &deleter{begun: make(chan []string, 10), results: make(chan error)}
}

func (d *deleter) DeleteEmpty(ctx context.Context, _ string, queues []string, _ func(context.Context) error) error {
	d.begun <- queues
	select {
	case result := <-d.results:
		return result
	case <-ctx.Done():
		return ctx.Err()
	}
}

// toldOwners are the ConsumerQueues that are to be reconciled because an attempt is over.
type toldOwners chan client.ObjectKey

func newToldRemovals(t *testing.T) (*removals, toldOwners) {
	t.Helper()
	told := make(toldOwners, 10)
	return newRemovals(t.Context(), func(key client.ObjectKey) { told <- key }), told
}

var (
	orders   = client.ObjectKey{Namespace: "shop", Name: "orders"}
	invoices = client.ObjectKey{Namespace: "shop", Name: "invoices"}
)

func TestAnAttemptRunsOnceAndTellsWhenItIsOver(t *testing.T) {
	t.Parallel()
	r, told := newToldRemovals(t)
	broker, notEmpty := newDeleter(), errors.New("it is not empty")
	attempt := func(again time.Duration) (bool, error) {
		return r.attempt(orders, broker, "a", group{queues: []string{"tier", "main"}}, again)
	}

	known, err := attempt(0)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "known at first", false, known)
	topologytest.Equal(t, "queues", []string{"tier", "main"}, <-broker.begun)
	known, _ = attempt(0)
	topologytest.Equal(t, "known while it runs", false, known)
	broker.results <- notEmpty
	topologytest.Equal(t, "told", orders, <-told)

	for range 2 {
		known, err = attempt(time.Hour)
		topologytest.Equal(t, "known", true, known)
		topologytest.Equal(t, "result", notEmpty, err, comparingErrors)
	}
	topologytest.Equal(t, "begun meanwhile", 0, len(broker.begun))

	known, err = attempt(0)
	<-broker.begun
	topologytest.Equal(t, "known while the next runs", true, known)
	topologytest.Equal(t, "result of the one before", notEmpty, err, comparingErrors)
	broker.results <- nil
	<-told
	known, err = attempt(time.Hour)
	topologytest.Equal(t, "known", true, known)
	topologytest.Equal(t, "result", nil, err)
}

func TestAttemptsForDifferentQueuesRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	r, told := newToldRemovals(t)
	broker := newDeleter()
	_, _ = r.attempt(orders, broker, "a", group{queues: []string{"one"}}, 0)
	_, _ = r.attempt(orders, broker, "a", group{queues: []string{"two"}}, 0)
	_, _ = r.attempt(invoices, broker, "a", group{queues: []string{"one"}}, 0)
	begun := []string{(<-broker.begun)[0], (<-broker.begun)[0], (<-broker.begun)[0]}
	slices.Sort(begun)
	topologytest.Equal(t, "begun", []string{"one", "one", "two"}, begun)
	for range 3 {
		broker.results <- nil
		<-told
	}
}

func TestOnlyEndsAndForgetsTheOthers(t *testing.T) {
	t.Parallel()
	r, told := newToldRemovals(t)
	kept, ended, theirs := newDeleter(), newDeleter(), newDeleter()
	_, _ = r.attempt(orders, kept, "a", group{queues: []string{"kept"}}, 0)
	_, _ = r.attempt(orders, ended, "a", group{queues: []string{"ended"}}, 0)
	_, _ = r.attempt(invoices, theirs, "a", group{queues: []string{"ended"}}, 0)
	r.only(orders, []string{"kept"})
	topologytest.Equal(t, "told of the one that was ended", orders, <-told)
	kept.results <- nil
	topologytest.Equal(t, "told of the one that was kept", orders, <-told)
	theirs.results <- nil
	topologytest.Equal(t, "told of another's", invoices, <-told)

	known, _ := r.attempt(orders, kept, "a", group{queues: []string{"kept"}}, time.Hour)
	topologytest.Equal(t, "result of the one that was kept is known", true, known)
	known, _ = r.attempt(orders, ended, "a", group{queues: []string{"ended"}}, time.Hour)
	topologytest.Equal(t, "result of the one that was ended is known", false, known)
	r.only(orders)
	<-told
	known, _ = r.attempt(invoices, theirs, "a", group{queues: []string{"ended"}}, time.Hour)
	topologytest.Equal(t, "result of another's is known", true, known)
	r.forget(orders)
	topologytest.Equal(t, "remembered", 1, len(r.of))
}

// A group is deleted one queue after the other. A reconciliation in between must not end the attempt: what it began on would
// stay without its tiers.
func TestAnAttemptIsUnderWayWhileItDeletesItsQueues(t *testing.T) {
	t.Parallel()
	r, told := newToldRemovals(t)
	broker := newDeleter()
	_, _ = r.attempt(orders, broker, "a", group{queues: []string{"tier", "main"}}, 0)
	for _, test := range []struct{ exist, given, want []string }{
		{[]string{"tier", "main"}, []string{"tier", "main"}, []string{"tier", "main"}},
		{[]string{"main"}, []string{"main"}, []string{"tier", "main"}},
		{[]string{}, []string{}, []string{"tier", "main"}},
		{[]string{"tier", "main"}, []string{"main"}, []string{"main"}}, // somebody has come to want the tier
		{[]string{"tier", "main"}, []string{"tier"}, []string{"tier"}},
		{[]string{"main", "other"}, []string{"main", "other"}, []string{"main", "other"}},
	} {
		exists := func(queue string) bool { return slices.Contains(test.exist, queue) }
		topologytest.Equal(t, "group", test.want, r.underWay(orders, test.given, exists))
		topologytest.Equal(t, "group of another", test.given, r.underWay(invoices, test.given, exists))
	}
	broker.results <- nil
	<-told
	topologytest.Equal(t, "group when it is over", []string{"main"}, r.underWay(orders, []string{"main"}, func(queue string) bool { return queue == "main" }))
}

// What was deleted is remembered, for it may be there again.
func TestBack(t *testing.T) {
	t.Parallel()
	r, told := newToldRemovals(t)
	broker := newDeleter()
	is := func(names ...string) func(string) bool {
		return func(queue string) bool { return slices.Contains(names, queue) }
	}
	for _, result := range []error{errors.New("it is not empty"), nil} {
		queue, _ := r.back(orders, is("tier", "main"))
		topologytest.Equal(t, "back before it was deleted", "", queue)
		_, _ = r.attempt(orders, broker, "a", group{queues: []string{"tier", "main"}}, 0)
		broker.results <- result
		<-told
	}
	r.only(orders)
	for _, test := range []struct {
		exist []string
		want  string
	}{{nil, ""}, {[]string{"other"}, ""}, {[]string{"main", "other"}, "main"}, {[]string{"tier", "main"}, "main"}} {
		queue, since := r.back(orders, is(test.exist...))
		topologytest.Equal(t, "back", test.want, queue)
		topologytest.Equal(t, "since", true, since >= 0 && since < time.Minute)
	}
	queue, _ := r.back(invoices, is("main"))
	topologytest.Equal(t, "back of another's", "", queue)
	r.forget(orders)
	queue, _ = r.back(orders, is("main"))
	topologytest.Equal(t, "back of what is forgotten", "", queue)
}

// When the manager stops, attempts are rolled back.
func TestAttemptsEndWithTheManager(t *testing.T) {
	t.Parallel()
	lifetime, stop := context.WithCancel(t.Context())
	told := make(toldOwners, 1)
	r := newRemovals(lifetime, func(key client.ObjectKey) { told <- key })
	_, _ = r.attempt(orders, newDeleter(), "a", group{queues: []string{"one"}}, 0)
	stop()
	<-told
	known, err := r.attempt(orders, newDeleter(), "a", group{queues: []string{"one"}}, time.Hour)
	topologytest.Equal(t, "known", true, known)
	topologytest.Equal(t, "result", context.Canceled, err, comparingErrors)
}
