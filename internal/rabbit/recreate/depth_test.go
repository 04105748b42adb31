package recreate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// longMove is a move during which a policy of the destination changes.
type longMove struct {
	Changer

	during func(context.Context, mover.Config)
}

func (m longMove) Move(ctx context.Context, _ string, config mover.Config) (mover.Progress, error) {
	m.during(ctx, config)
	return mover.Progress{}, nil
}

func TestAPolicyThatChangesDuringAMoveBack(t *testing.T) {
	type answer struct {
		messages int
		err      error
	}
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[answer]
		now.Store(&answer{})
		var depths []int
		changer := longMove{during: func(ctx context.Context, config mover.Config) {
			depths = append(depths, config.Settings().MaxDepth)
			for _, next := range []answer{{8, nil}, {0, errors.New("the broker cannot be reached")}, {80, nil}} {
				now.Store(&next)
				time.Sleep(2 * depthPause)
				depths = append(depths, config.Settings().MaxDepth)
			}
			now.Store(&answer{0, dropsBeyond("orders", 1000, "bytes")})
			<-ctx.Done()
		}}
		back := move{from: "hold", to: "orders", movesBack: true, maxDepth: func(context.Context) (int, error) {
			return now.Load().messages, now.Load().err
		}}
		_, err := New(Settings{}, nil, changer, nil, nil).move(t.Context(), back, nil)
		if ReasonOf(err) != LossyLength {
			t.Error(err)
		}
		if difference := cmp.Diff([]int{-1, 8, 8, 80}, depths); difference != "" {
			t.Error(difference)
		}
	})
}
