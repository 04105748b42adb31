package safedelete

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Deletions that take too long leave fewer places to the others, but never none; deletions that end well give them back.
func TestFewerDeletionsAtATimeWhereTheBrokerIsSlow(t *testing.T) {
	t.Parallel()
	d := newRegister()
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
		if free := cap(d.fencing) - len(d.fencing); free != step.free {
			t.Errorf("%d: after %v %d places are free, should be %d", i, step.err, free, step.free)
		}
	}
}

// A fence outlives a sentinel of which the broker did not say what became of it.
func TestASentinelThatMayArriveKeepsItsFence(t *testing.T) {
	t.Parallel()
	d := newRegister()
	d.trackFence("fence")
	if d.mayArrive("fence") {
		t.Error("all sentinels were accounted for")
	}
	d.drift("fence")
	d.untrackFence("fence", false)
	if !d.mayArrive("fence") {
		t.Error("the sentinel is forgotten")
	}
	d.adrift["fence"] = time.Now().Add(-unnoticed)
	if d.mayArrive("fence") {
		t.Error("a node that died does not pass a message on after so long")
	}
	d.forget("fence")
	if len(d.adrift)+len(d.fences)+len(d.standsFor) > 0 {
		t.Errorf("%+v", d)
	}
}
