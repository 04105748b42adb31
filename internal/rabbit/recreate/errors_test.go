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
		other   = errors.New("other")
	)
	cases := map[string]struct {
		done   safedelete.Recreated
		err    error
		reason Reason
	}{
		"the delete may be running":         {safedelete.Recreated{DeleteSent: true}, brokererr.ErrConsumed, DeleteUncertain},
		"a consumer subscribed":             {safedelete.Recreated{}, brokererr.ErrConsumed, ConsumersCameBack},
		"messages wait to be dead-lettered": {safedelete.Recreated{}, pending, MessagesPending},
		"messages arrived":                  {safedelete.Recreated{}, brokererr.ErrNotEmpty, PublishersPastBindings},
		"the callback gave a reason":        {safedelete.Recreated{}, refuse(AMQP10Message, "x"), AMQP10Message},
		"a permission is missing":           {safedelete.Recreated{}, fmt.Errorf("x: %w", brokererr.ErrAccessRefused), MissingPermission},
		"another instance works here":       {safedelete.Recreated{}, brokererr.ErrShared, SharedVHost},
		"any other error":                   {safedelete.Recreated{}, other, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			err := whyNotSwapped(test.done, test.err)
			if ReasonOf(err) != test.reason || !errors.Is(err, test.err) {
				t.Errorf("%q: %v", ReasonOf(err), err)
			}
		})
	}
}
