package mover

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/brokers"
)

// A move begins with a small prefetch, and continues with a large one on another channel. A cut connection may lose the
// acknowledgements on both channels, until the broker has processed those of the first one.
func TestCapacity(t *testing.T) {
	t.Parallel()
	first := &intakeChannel{prefetch: firstPrefetch, cancelled: true, delivered: firstPrefetch, acknowledged: firstPrefetch}
	in := &intake{channels: []*intakeChannel{first, {prefetch: maxWindow}}}
	topologytest.Equal(t, "capacity", firstPrefetch+maxWindow, in.capacity())
	first.removed = firstPrefetch
	topologytest.Equal(t, "capacity later", maxWindow, in.capacity())
}

// On a busy machine, messages can arrive in the process long before the pass takes them, while the queue has no ready messages.
func TestASourceIsNotEmptyWhileArrivedMessagesAreNotTaken(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		config := configOf(t, vh)
		connection, err := config.Dial(t.Context())
		topologytest.Equal(t, "error of the connection", nil, err)
		defer connection.Close(answerLimit)
		p := &pass{
			move: &move{Config: config, pace: newPace(config.Settings())}, connection: connection,
			intake: &intake{connection: connection, queue: source}, takenWhenEmpty: never,
		}
		topologytest.Equal(t, "error of the consumer", nil, p.intake.open(maxWindow))
		NewWithT(t).Eventually(connection.Unsettled).WithTimeout(within).Should(Equal(10))
		isEmpty := func() bool {
			for range 2 {
				topologytest.Equal(t, "error of the check", nil, p.checkSource(idleLimit))
			}
			return p.drained
		}
		topologytest.Equal(t, "empty before the messages are taken", false, isEmpty())
		for range 10 {
			message := <-p.intake.current().deliveries
			p.intake.keep(&message)
		}
		topologytest.Equal(t, "empty afterwards", true, isEmpty())
	})
}
