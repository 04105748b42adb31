package recreate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
)

func TestReasonOfAFailedSwap(t *testing.T) {
	var (
		errs    brokererr.Errors
		pending = errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrPending}, "messages wait to be dead-lettered")
		slow    = errs.Fail(brokererr.ErrUnproven, "it took longer than 10s")
		held    = errs.Because([]error{brokererr.ErrUnproven, brokererr.ErrPending}, "a sentinel is held")
		other   = errors.New("other")
	)
	cases := map[string]struct {
		done    safedelete.Recreated
		drained int
		err     error
		reason  Reason
	}{
		"the delete may be running":                {safedelete.Recreated{DeleteSent: true}, 0, brokererr.ErrConsumed, DeleteUncertain},
		"a consumer subscribed":                    {safedelete.Recreated{}, 0, brokererr.ErrConsumed, ConsumersCameBack},
		"messages wait to be dead-lettered":        {safedelete.Recreated{}, 0, pending, MessagesPending},
		"messages arrived":                         {safedelete.Recreated{}, 0, brokererr.ErrNotEmpty, PublishersPastBindings},
		"messages arrived until the time was over": {safedelete.Recreated{}, 1, slow, PublishersPastBindings},
		"a sentinel of a crash is held":            {safedelete.Recreated{}, 0, held, ""},
		"the broker was slow":                      {safedelete.Recreated{}, 0, slow, NotProven},
		"the callback gave a reason":               {safedelete.Recreated{}, 0, refuse(AMQP10Message, "x"), AMQP10Message},
		"a permission is missing":                  {safedelete.Recreated{}, 0, fmt.Errorf("x: %w", brokererr.ErrAccessRefused), MissingPermission},
		"the broker refuses an operation":          {safedelete.Recreated{}, 0, fmt.Errorf("x: %w", brokererr.ErrPreconditionFailed), OperationRefused},
		"another instance works here":              {safedelete.Recreated{}, 0, brokererr.ErrShared, SharedVHost},
		"any other error":                          {safedelete.Recreated{}, 0, other, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			err := whyNotSwapped(test.done, test.drained, test.err)
			if ReasonOf(err) != test.reason || !errors.Is(err, test.err) {
				t.Errorf("%q: %v", ReasonOf(err), err)
			}
		})
	}
}
