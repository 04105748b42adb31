package safedelete

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// A batch has groups of one kind, in the order in which they arrived, as many as fit into one pattern and into the time limit.
func TestTheNextBatch(t *testing.T) {
	t.Parallel()
	long := func(i int) string { return fmt.Sprintf("%d%s%[1]d", i, strings.Repeat("(", 250)) } // 502 bytes in a pattern
	plain, limited, hurried := kind{policies: "{}"}, kind{policies: `{"max-length":1}`}, kind{policies: "{}", hurry: time.Second}
	type waiting struct {
		kind   kind
		queues []string
	}
	for name, test := range map[string]struct {
		waiting []waiting
		most    int
		want    []string // the first queues of the groups
		left    []string
	}{
		"of one kind": {
			waiting: []waiting{{plain, []string{"a"}}, {limited, []string{"b"}}, {plain, []string{"c"}}},
			most:    queueLimit, want: []string{"a", "c"}, left: []string{"b"},
		},
		"as many as the limit allows": {
			waiting: []waiting{{plain, []string{"a", "b"}}, {plain, []string{"c"}}, {plain, []string{"d"}}},
			most:    3, want: []string{"a", "c"}, left: []string{"d"},
		},
		"one at least": {
			waiting: []waiting{{plain, []string{"a", "b"}}, {plain, []string{"c"}}},
			most:    1, want: []string{"a"}, left: []string{"c"},
		},
		"as many as one pattern names": {
			waiting: []waiting{{plain, []string{long(1)}}, {plain, []string{long(2)}}, {plain, []string{long(3)}}, {plain, []string{"a"}}},
			most:    queueLimit, want: []string{long(1), long(2)}, left: []string{long(3), "a"},
		},
		"fewer where sentinels expire soon": {
			waiting: []waiting{{hurried, []string{"a"}}, {hurried, []string{"b"}}, {hurried, []string{"c"}}},
			most:    20, want: []string{"a", "b"}, left: []string{"c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBatcher(nil)
			b.maxQueues = test.most
			for _, w := range test.waiting {
				b.waiting = append(b.waiting, &group{kind: w.kind, queues: w.queues, since: time.Now().Add(-time.Hour)})
			}
			groups, _ := b.next()
			if difference := cmp.Diff(test.want, firstQueues(groups)); difference != "" {
				t.Errorf("the batch (-want +got): %s", difference)
			}
			if difference := cmp.Diff(test.left, firstQueues(b.waiting)); difference != "" {
				t.Errorf("what still waits (-want +got): %s", difference)
			}
		})
	}
}

func firstQueues(groups []*group) (names []string) {
	for _, g := range groups {
		names = append(names, g.queues[0])
	}
	return names
}

// A first group waits a moment for others, and longer while batches are under way.
func TestTheFirstOfABatchWaitsForOthers(t *testing.T) {
	t.Parallel()
	b := newBatcher(nil)
	b.waiting = []*group{{queues: []string{"a"}, since: time.Now()}}
	if groups, left := b.next(); groups != nil || left <= 0 || left > gathering {
		t.Errorf("%d groups together, and %v left", len(groups), left)
	}
	b.running = 3
	if groups, left := b.next(); groups != nil || left <= gathering || left > 4*gathering {
		t.Errorf("%d groups together, and %v left while others are under way", len(groups), left)
	}
}

// Batches that take too long become smaller, down to one queue, and grow again when they do not.
func TestBatchesAdaptToTheBroker(t *testing.T) {
	t.Parallel()
	b := newBatcher(nil)
	for i, step := range []struct {
		queues int
		slow   bool
		most   int
	}{
		{queueLimit, true, queueLimit / 2},
		{10, true, 5},
		{1, false, 5}, // too small a batch to change the limit
		{5, false, 7},
		{7, true, 3},
		{3, true, 1},
		{1, true, 1},
		{1, false, 2},
		{96, false, 3},
	} {
		b.adapt(step.queues, step.slow)
		if b.maxQueues != step.most {
			t.Fatalf("%d: %d queues at most, should be %d", i, b.maxQueues, step.most)
		}
	}
	for range 30 {
		b.adapt(queueLimit, false)
	}
	if b.maxQueues != queueLimit {
		t.Errorf("%d queues at most", b.maxQueues)
	}
}

// A call that ends while it waits returns immediately. A call that ends while it is in a batch returns when the batch ends.
func TestACallThatEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	b := newBatcher(func(groups []*group) {
		close(begun)
		<-release
		for _, g := range groups {
			g.done <- errReleased
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 1)
	go func() {
		results <- b.wait(brokererr.Errors{}, &group{ctx: ctx, queues: []string{"a"}, done: make(chan error, 1)})
	}()
	<-begun
	b.mu.Lock()
	b.running = batchLimit // so that the second one waits
	b.mu.Unlock()
	waiting := make(chan error, 1)
	go func() {
		waiting <- b.wait(brokererr.Errors{}, &group{ctx: ctx, kind: kind{policies: "other"}, queues: []string{"b"}, done: make(chan error, 1)})
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("while it waits: %v", err)
	}
	select {
	case err := <-results:
		t.Errorf("before its batch is over: %v", err)
	default:
	}
	close(release)
	if err := <-results; !errors.Is(err, errReleased) {
		t.Errorf("in a batch: %v", err)
	}
}

// One read serves all callers that asked before it began, and no caller that asked later.
func TestOneReadingServesManyQuestions(t *testing.T) {
	t.Parallel()
	began, answers, number := make(chan int), make(chan struct{}), 0
	r := &sharedRead[int]{read: func() (int, error) {
		number++
		began <- number
		<-answers
		return number, nil
	}}
	first := r.ask()
	if n := <-began; n != 1 {
		t.Fatalf("reading %d", n)
	}
	second, third := r.ask(), r.ask()
	answers <- struct{}{}
	if <-first.done; first.answer != 1 {
		t.Errorf("the first question was answered by reading %d", first.answer)
	}
	if n := <-began; n != 2 {
		t.Errorf("reading %d", n)
	}
	answers <- struct{}{}
	<-second.done
	<-third.done
	if second.answer != 2 || third.answer != 2 {
		t.Errorf("questions during the first reading were answered by readings %d and %d", second.answer, third.answer)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, err := r.get(ended, brokererr.Errors{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that has ended: %v", err)
		}
	})
	waiting.Wait()
	<-began
	answers <- struct{}{}
}
