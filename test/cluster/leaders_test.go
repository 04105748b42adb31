package cluster

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Moving the leaders of queues", func() {
	It("while messages flow, drift is corrected and ConsumerQueues are deleted, loses no message", func() {
		w := newWorld(1, 1)
		names := w.Queues("orders", 12, quick)
		idle := names[5:] // dead letters without a destination are retried only after minutes
		leaving := w.Queues("leaving", 3, patient)
		w.AllReady(15)
		near, far := w.flow(1, names[:3]...), w.flow(2, names[2:5]...)
		w.Delete(leaving...)
		moved := make(chan string, 1)
		go func() {
			defer close(moved)
			defer GinkgoRecover()
			moved <- w.moveLeaders()
		}()
		w.VHost.DeleteQueue(idle[0] + tier)
		round := 0
		for moves := ""; moves == ""; round++ {
			name := idle[round%len(idle)] // a queue that is deleted repeatedly is recreated late
			w.VHost.Unbind(name+".dlx", name+".dlq", "", nil)
			Eventually(w.Differences).ShouldNot(ContainElement(Not(HaveSuffix("is unexpected"))))
			select {
			case moves = <-moved: // empty if it failed
				Expect(len(movedLeader.FindAllString(moves, -1))).To(BeNumerically(">", 3*10), moves)
			default:
			}
		}
		Eventually(w.All).Should(HaveLen(12))
		w.AllReady(12)
		w.ExpectExactly()
		noneLost(w.VHost, near, far)
	})
})

// movedLeader matches RabbitMQ's result for a moved leader: ok in 4.3, migrated before.
var movedLeader = regexp.MustCompile(`\{(ok|migrated),`)

// moveLeaders makes each node in rotation the leader of all queues of the vhost, twice, and returns the results.
func (w *world) moveLeaders() string {
	GinkgoHelper()
	var names []string
	for range 2 {
		for number := range 3 {
			names = append(names, "'"+nodes.Name(number+1)+"'")
		}
	}
	return nodes.Eval(3, fmt.Sprintf(
		`[begin timer:sleep(%d), [catch rabbit_quorum_queue:transfer_leadership(Q, N) || Q <- rabbit_amqqueue:list(<<"%s">>), amqqueue:is_quorum(Q)] end || N <- [%s]].`,
		(2*time.Second).Milliseconds(), w.VHost.Name, strings.Join(names, ", ")))
}
