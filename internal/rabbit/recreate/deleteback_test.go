package recreate

import (
	"context"
	"errors"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
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

// uncleared has recreated a queue, and cannot take its fence down.
type uncleared struct {
	Deleter

	why error
}

func (uncleared) SettleRecreation(context.Context, string, topology.Queue) (isNew bool, err error) {
	return true, nil
}

func (d uncleared) ClearRecreation(context.Context, string, string, bool) error { return d.why }

// The queue may hold a sentinel behind other messages, which only consumers can take out. A main queue gets consumers in GiveBack, and a delay
// tier has none: in both cases, the recreation would otherwise never end.
func TestASentinelInANewQueueDelaysNoRecreation(t *testing.T) {
	t.Parallel()
	var errs brokererr.Errors
	for name, test := range map[string]struct{ why, want error }{
		"a sentinel is left": {errs.Fail(brokererr.ErrUnproven, "the queue may hold a sentinel"), nil},
		"the fence is closed": {
			errs.Because([]error{brokererr.ErrUnproven, safedelete.ErrBusy}, "the queue is being deleted"), safedelete.ErrBusy,
		},
		"the broker is down": {brokererr.ErrTimeout, brokererr.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := of("orders")
			rec.DeleteSent, rec.WithoutHold = true, true
			recreator := New(Settings{}, nil, &declaringChanger{arguments: map[string]vhost.Arguments{}}, uncleared{why: test.why}, nil)
			swapped, err := recreator.Swap(t.Context(), rec, nil)
			if !errors.Is(err, test.want) || !swapped.DeleteSent {
				t.Errorf("Swap: %+v, %v, want %v", swapped, err, test.want)
			}
			if _, err := recreator.GiveBack(t.Context(), rec, nil); !errors.Is(err, test.want) {
				t.Errorf("GiveBack: %v, want %v", err, test.want)
			}
		})
	}
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
