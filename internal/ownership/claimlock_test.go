package ownership

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestClaimLock(t *testing.T) {
	t.Parallel()
	const queue, exchange, a, b mark = 1, 2, 3, 4
	for name, test := range map[string]struct {
		held, wanted Claims
		waits        bool
	}{
		"the same subject in another form": {Claims{queue: a}, Claims{queue: b}, true},
		"the same subject in one form":     {Claims{queue: a}, Claims{queue: a}, false},
		"other subjects":                   {Claims{queue: a}, Claims{exchange: b}, false},
		"one of two in another form":       {Claims{queue: a, exchange: a}, Claims{queue: a, exchange: b}, true},
		"nothing":                          {Claims{queue: a}, Claims{}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			lock := NewClaimLock()
			release, err := lock.Acquire(t.Context(), test.held)
			topologytest.Equal(t, name+": error", nil, err)
			var later sync.WaitGroup
			acquired := false
			later.Go(func() {
				again, err := lock.Acquire(t.Context(), test.wanted)
				acquired = err == nil
				again()
			})
			synctest.Wait()
			topologytest.Equal(t, name+": waits", test.waits, !acquired)
			release()
			later.Wait()
			topologytest.Equal(t, name+": acquired in the end", true, acquired)
			topologytest.Equal(t, name+": held in the end", 0, len(lock.held))
		})
	}
}

func TestClaimLockGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue, a, b mark = 1, 2, 3
		lock := NewClaimLock()
		if _, err := lock.Acquire(t.Context(), Claims{queue: a}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := lock.Acquire(ctx, Claims{queue: b})
		topologytest.Equal(t, "error", context.DeadlineExceeded, err)
	})
}
