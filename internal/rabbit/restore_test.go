package rabbit

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

// cutWhileDeleting is a configuration whose connection is cut when the broker has been told to delete a queue, once. The leader of the
// queue is suspended for a time, so that the deletion outlives the connection.
func cutWhileDeleting(
	t *testing.T, private *brokers.Private, vh *brokers.VHost, queue string, pause time.Duration, armed *atomic.Bool,
) Config {
	t.Helper()
	proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
		if frame.Method == netfault.QueueDelete && !frame.FromBroker && armed.CompareAndSwap(true, false) {
			private.Eval(fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"%s">>, queue, <<"%s">>)),
				{Leader, _} = amqqueue:get_pid(Q), sys:suspend(Leader), spawn(fun() -> timer:sleep(%d), sys:resume(Leader) end).`,
				vh.Name, queue, pause.Milliseconds()))
			return netfault.PassAndCut
		}
		return netfault.Pass
	})
	config := configOf(vh)
	config.AMQPURI = proxy.URI
	return config
}

// The connection is lost while RabbitMQ deletes a queue. What is declared before that has come to its end is deleted, too.
func TestADeletionThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	private := brokers.NewPrivate(t)
	for name, test := range map[string]struct {
		pause    time.Duration // of the leader
		restored bool
	}{
		"is over soon":  {pause: 2 * time.Second, restored: true},
		"is over later": {pause: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			vh := private.Broker.NewVHost(t)
			queues := tierAndMain(vh, "orders")
			tier := queues[0]
			vh.DeclareExchange("retry", "direct", nil)
			vh.Bind("retry", tier, "k", nil)
			var armed atomic.Bool
			connection := connected(t, cutWhileDeleting(t, private, vh, tier, test.pause, &armed), nil)
			connection.deleter.Between = func(step string) bool {
				armed.CompareAndSwap(false, step == safedelete.StepSettled)
				return true
			}
			burster := newBurster(t, vh, tier)
			err := deleteNow(t.Context(), connection, queues...)
			mustBe(t, err, brokererr.ErrUnreachable)
			g := NewWithT(t)
			confirmed := burster.burst(t.Context(), "while the deletion may go on", 1)
			g.Eventually(vh.Policies).WithTimeout(2 * within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
			names := []string{}
			for _, queue := range vh.Definitions().Queues {
				names = append(names, queue.Name)
			}
			if !test.restored {
				g.Expect(names).To(ConsistOf("orders"))
				g.Expect(confirmed).To(BeEmpty(), "what a queue takes that is being deleted is lost")
				g.Expect(err).To(MatchError(ContainSubstring(`RabbitMQ may still be deleting queue "` + tier + `"`)))
				return
			}
			g.Expect(names).To(ConsistOf("orders", tier))
			g.Expect(vh.Definitions().Bindings).To(HaveLen(1))
			g.Expect(err).To(MatchError(ContainSubstring(`queues deleted before are declared again: "` + tier + `"`)))
			g.Consistently(vh.Ready).WithArguments(tier).WithTimeout(2 * time.Second).Should(Equal(len(confirmed)))
		})
	}
}
