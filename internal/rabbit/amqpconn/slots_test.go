package amqpconn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSlotsAreGivenInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &slots{limit: newLimit(2)}
		var order []string
		take := func(ctx context.Context, name string) {
			go func() {
				if p.take(ctx) == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		impatient, leave := context.WithCancel(t.Context())
		take(t.Context(), "first")
		take(t.Context(), "second")
		take(impatient, "impatient")
		take(t.Context(), "third")
		take(t.Context(), "fourth")
		leave()
		synctest.Wait()
		if difference := cmp.Diff([]string{"first", "second"}, order); difference != "" {
			t.Error(difference)
		}
		p.leave()
		synctest.Wait()
		p.adapt(func(l *limit) { l.setBlocked(true, time.Now()) })
		p.leave()
		synctest.Wait()
		if difference := cmp.Diff([]string{"first", "second", "third"}, order); difference != "" {
			t.Error(difference)
		}
		p.leave() // the limit is one
		synctest.Wait()
		p.leave()
		if difference := cmp.Diff([]string{"first", "second", "third", "fourth"}, order); difference != "" {
			t.Error(difference)
		}
		if p.count() != 0 || len(p.waiting) != 0 {
			t.Errorf("%d slots are taken, %d wait", p.count(), len(p.waiting))
		}
	})
}

// When the limit rises, waiting operations start immediately.
func TestSlotsWhenTheLimitRises(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &slots{limit: newLimit(16)}
		p.adapt(func(l *limit) { l.setBlocked(true, time.Now()) })
		for range 20 {
			go func() { _ = p.take(t.Context()) }()
		}
		synctest.Wait()
		if taken := p.count(); taken != 1 {
			t.Errorf("%d slots are taken while the broker blocks", taken)
		}
		p.adapt(func(l *limit) { l.setBlocked(false, time.Now()) })
		if taken := p.count(); taken != 16 {
			t.Errorf("%d slots are taken", taken)
		}
		for range 20 {
			p.leave()
			synctest.Wait()
		}
	})
}

// A context that ends when its operation gets a slot does not take the slot.
func TestSlotsAfterTheContextEnds(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	p := &slots{limit: newLimit(1)}
	for range 1000 { // the slot and the end of the context race
		if err := p.take(ended); err == nil {
			p.leave()
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if p.count() != 0 || len(p.waiting) != 0 {
		t.Errorf("%d slots are taken, %d wait", p.count(), len(p.waiting))
	}
}
