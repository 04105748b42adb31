package rabbit

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// Deletions that take too long leave fewer places to the others, but never none; deletions that end well give them back.
func TestFewerDeletionsAtATimeWhereTheBrokerIsSlow(t *testing.T) {
	t.Parallel()
	d := newDeletions()
	slow := fmt.Errorf("not now: %w", errSlow)
	for i, step := range []struct {
		err  error
		free int
	}{
		{nil, 6},
		{slow, 5},
		{errors.New("not empty"), 5},
		{slow, 4},
		{nil, 5},
		{slow, 4},
		{slow, 3},
		{slow, 2},
		{slow, 1},
		{slow, 1},
		{nil, 2},
		{nil, 3},
		{nil, 4},
		{nil, 5},
		{nil, 6},
		{nil, 6},
	} {
		if err := d.fenced(t.Context(), brokererr.Errors{}, func() error { return step.err }); !errors.Is(err, step.err) {
			t.Errorf("%d: %v is not %v", i, err, step.err)
		}
		if free := cap(d.fencing) - len(d.fencing); free != step.free {
			t.Errorf("%d: after %v %d places are free, should be %d", i, step.err, free, step.free)
		}
	}
}
