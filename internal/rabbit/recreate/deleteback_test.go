package recreate

import (
	"context"
	"errors"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// refusingDeleter refuses the first deletion of the hold and the backlog, and counts the deletions.
type refusingDeleter struct {
	Deleter

	refusal error
	calls   int
}

func (d *refusingDeleter) DeleteEmpty(context.Context, string, []string, func(context.Context) error) error {
	if d.calls++; d.calls == 1 {
		return d.refusal
	}
	return nil
}

// searchingDeleter recreated a queue that may still hold a sentinel behind other messages. The fence is open.
type searchingDeleter struct{ Deleter }

func (searchingDeleter) SettleRecreation(context.Context, string, topology.Queue) (isNew bool, err error) {
	return true, nil
}

func (searchingDeleter) ClearRecreation(context.Context, string, string, bool) error {
	return brokererr.New("the queue may hold a sentinel", brokererr.ErrUnproven)
}

// Only consumers can take the messages in front of the sentinel, and they may start in GiveBack. Otherwise the recreation would never end.
func TestSwapLeavesTheSearchInANewQueueToGiveBack(t *testing.T) {
	t.Parallel()
	rec := Recreation{ID: "id", Queue: topology.Queue{Name: "orders"}, DeleteSent: true, WithoutHold: true}
	swapped, err := New(Settings{}, nil, nil, searchingDeleter{}, nil).Swap(t.Context(), rec, nil)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "swapped", Swapped{DeleteSent: true}, swapped)
}

// Each attempt sets a fence, which refuses publishers. Another attempt helps only if GiveBack can move the messages that arrived.
func TestGiveBackRetriesTheDeletionOnlyForMessagesThatItCanMove(t *testing.T) {
	t.Parallel()
	var errs brokererr.Errors
	for name, test := range map[string]struct {
		refusal error
		calls   int
	}{
		"no refusal":              {nil, 1},
		"messages arrived":        {errs.Fail(brokererr.ErrNotEmpty, `queue "hold" holds 1 message`), 2},
		"a consumer subscribed":   {errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrConsumed}, `queue "hold" has 1 consumer`), 1},
		"messages wait":           {errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrPending}, "messages wait"), 1},
		"nothing could be proven": {errs.Fail(brokererr.ErrUnproven, "the broker was slow"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deleter := &refusingDeleter{refusal: test.refusal}
			_, err := New(Settings{}, nil, &declaringChanger{}, deleter, nil).giveBackRest(t.Context(), of("orders"), Progress{}, nil)
			var want error
			if test.calls == 1 {
				want = test.refusal
			}
			if deleter.calls != test.calls || !errors.Is(err, want) {
				t.Errorf("%d deletions, want %d: %v", deleter.calls, test.calls, err)
			}
		})
	}
}
