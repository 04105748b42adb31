package safedelete

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// When the connection is about to be closed, no running deletion can delete another queue.
func TestTheEndOfAConnectionEndsItsDeletions(t *testing.T) {
	t.Parallel()
	for range 1000 {
		d := newRegister(&Standing{})
		ctx, end, _, err := d.begin(t.Context(), []string{"orders", "orders.dlq"})
		if err != nil {
			t.Fatal(err)
		}
		go d.stop(time.Minute)
		<-d.closing.Done()
		if err := context.Cause(ctx); !errors.Is(err, brokererr.ErrClosed) {
			t.Fatalf("the deletion may continue: %v", err)
		}
		end()
	}
}

// Two deletions of a queue would remove each other's sentinels.
func TestAQueueIsDeletedByOneCallAtATime(t *testing.T) {
	t.Parallel()
	d := newRegister(&Standing{})
	_, end, _, err := d.begin(t.Context(), []string{"orders", "orders.dlq"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, busy, err := d.begin(t.Context(), []string{"bills", "orders.dlq"}); !errors.Is(err, ErrBusy) || busy != "orders.dlq" {
		t.Errorf("%q: %v", busy, err)
	}
	end()
	if _, _, busy, err := d.begin(t.Context(), []string{"bills", "orders.dlq"}); err != nil {
		t.Errorf("%q: %v", busy, err)
	}
}

// Deletions that take too long leave fewer places to other deletions, but never none. Deletions that end well return the places.
func TestFewerDeletionsAtATimeWhereTheBrokerIsSlow(t *testing.T) {
	t.Parallel()
	d := newRegister(&Standing{})
	slow := fmt.Errorf("not now: %w", errSlow)
	for i, step := range []struct {
		err  error
		free int
	}{
		{nil, 3},
		{slow, 2},
		{errors.New("not empty"), 2},
		{slow, 1},
		{nil, 2},
		{slow, 1},
		{slow, 1},
		{nil, 2},
		{nil, 3},
		{nil, 3},
	} {
		if err := d.fenced(func() error { return step.err }); !errors.Is(err, step.err) {
			t.Errorf("%d: %v is not %v", i, err, step.err)
		}
		if free := cap(d.slots) - len(d.slots); free != step.free {
			t.Errorf("%d: after %v %d places are free, should be %d", i, step.err, free, step.free)
		}
	}
}

// A fence stays up while a sentinel of it is unanswered.
func TestASentinelThatMayArriveKeepsItsFence(t *testing.T) {
	t.Parallel()
	d := newRegister(&Standing{})
	d.trackFence("fence")
	if d.mayArrive("fence") {
		t.Error("all sentinels were accounted for")
	}
	d.recordUnanswered("fence")
	d.untrackFence("fence", false)
	if !d.mayArrive("fence") {
		t.Error("the sentinel is forgotten")
	}
	d.unansweredAt["fence"] = time.Now().Add(-unnoticed)
	if d.mayArrive("fence") {
		t.Error("a node that died does not pass a message on after so long")
	}
	d.forget("fence")
	if len(d.unansweredAt)+len(d.fences)+len(d.failures) > 0 {
		t.Errorf("%+v", d)
	}
}

// If the broker was too busy to remove policies in time, no deletion writes another one.
func TestDeletionsWaitForFencesThatCouldNotBeTakenDown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left   int           // fences that could not be taken down
		lifted time.Duration // when one of them is taken down; never if zero
		want   time.Duration
	}{
		"none":                               {0, 0, 0},
		"a few":                              {fenceLimit - 1, 0, 0},
		"many, one of which is removed":      {fenceLimit, 7500 * time.Millisecond, 8 * time.Second},
		"many, none of which is removed":     {fenceLimit, 0, time.Minute},
		"many, one of which is removed late": {fenceLimit, time.Hour, time.Minute},
		"many more, one of which is removed": {fenceLimit + 1, time.Second, time.Minute},
		"many, and the connection closes":    {fenceLimit, -time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newRegister(&Standing{})
				for i := range test.left {
					d.trackFence(fmt.Sprint(i))
					d.untrackFence(fmt.Sprint(i), false)
				}
				d.trackFence("in use")
				switch {
				case test.lifted > 0:
					time.AfterFunc(test.lifted, func() { d.forget("0") })
				case test.lifted < 0:
					time.AfterFunc(-test.lifted, d.close)
				}
				began := time.Now()
				d.awaitLifted()
				if took := time.Since(began); took != test.want {
					t.Errorf("took %s, want %s", took, test.want)
				}
				d.close()
			})
		})
	}
}

// A read of the vhost removes the fences that it does not show, if they were left behind before the read began.
func TestAFenceThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inUse, shown bool
		left         time.Duration // before the read began
		kept         bool
	}{
		"gone":                         {left: time.Second},
		"still there":                  {left: time.Second, shown: true, kept: true},
		"left while the vhost is read": {left: -time.Second, kept: true},
		"in use":                       {inUse: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newRegister(&Standing{})
				d.trackFence("fence")
				if !test.inUse {
					d.untrackFence("fence", false)
				}
				d.forgetMissing(func(string) bool { return test.shown }, time.Now().Add(test.left))
				if _, kept := d.isTracked("fence"); kept != test.kept {
					t.Errorf("kept: %v, should be %v", kept, test.kept)
				}
			})
		})
	}
}
