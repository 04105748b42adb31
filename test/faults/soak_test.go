package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// soak is the duration of the test: WARREN_SOAK=2h, which `make soak` sets.
var soak = func() time.Duration {
	given, err := time.ParseDuration(os.Getenv("WARREN_SOAK"))
	if err != nil {
		return 10 * time.Minute
	}
	return given
}()

// leakedBytes and leakedPercent limit the growth of the manager's memory in the last quarter of a soak over the
// second one. A leak of 4 kB (a ConsumerQueue's status) in each of about 5 rounds per minute would be 1 MiB per hour.
const (
	leakedBytes   = 6 << 20
	leakedPercent = 5
)

var _ = Describe("A manager that runs for hours", Label("soak"), func() {
	It("uses no more memory at the end than after the first half hour", func() {
		w := newWorld(shared)
		server := NewDeadLetterServer()
		manager := kube.StartManager(managerBinary, []string{w.Namespace}, append(server.Flags(), "--message-counts-interval=1s")...)
		s := &soaking{world: w, client: w.DeadLetterClient(server, "looker", "deadletterqueue_admin_role")}
		s.Queue("orders", ordinary)
		s.stay = s.Queues("stay", 50, ordinary)
		s.AllReady(len(s.stay) + 1)

		var memory []int
		for end, round := time.Now().Add(soak), 0; time.Now().Before(end); round++ {
			s.round(round)
			memory = append(memory, memoryOf(manager))
			if round%20 == 0 {
				AddReportEntry("soak", ReportEntryVisibilityAlways, fmt.Sprintf("round %d: %d MiB", round, memory[round]>>20))
			}
		}
		Expect(len(memory)).To(BeNumerically(">=", 8), "rounds")
		early, late := medianOf(memory[len(memory)/4:len(memory)/2]), medianOf(memory[len(memory)*3/4:])
		AddReportEntry("soak", ReportEntryVisibilityAlways, fmt.Sprintf(
			"%d rounds in %v: %d MiB in the second quarter, %d MiB in the last", len(memory), soak, early>>20, late>>20))
		Expect(late).To(BeNumerically("<=", early+max(leakedBytes, early*leakedPercent/100)))
	})
})

// soaking is a world that repeats everything for which a manager may retain memory.
type soaking struct {
	*world

	client *DeadLetterClient
	stay   []string
}

// round creates, changes and deletes ConsumerQueues, causes drift, closes connections, and browses, moves and deletes dead letters.
func (s *soaking) round(number int) {
	GinkgoHelper()
	come := s.Queues(fmt.Sprintf("come-%d", number), 5, ordinary)
	s.AllReady(len(s.stay) + 1 + len(come))
	s.VHost.DeleteQueue(s.stay[number%len(s.stay)] + ".dlq")
	edited := s.stay[(number+1)%len(s.stay)]
	s.Queue(edited, `{retry: {delayTiers: [{delay: 1s}, {delay: 2s}]}}`)
	s.Ready(edited)
	s.Queue(edited, ordinary)
	if number%5 == 0 {
		s.amqp.Cut()
	}
	s.Delete(come...)

	s.VHost.Send("", "orders.dlq", slices.Repeat([]amqp.Publishing{{DeliveryMode: amqp.Persistent, Body: []byte("soak")}}, 200)...)
	Eventually(func() int { code, _ := s.client.Request("/orders/messages?limit=100"); return code }).Should(Equal(200))
	redrive, purge := "redrive-"+strconv.Itoa(number), "purge-"+strconv.Itoa(number)
	s.Redrive(redrive, `{consumerQueueRef: {name: orders}, maxMessages: 100, rate: Unlimited}`)
	s.EventuallyRedrive(redrive, Condition("Ready", "True", "Completed"))
	s.Purge(purge, `{consumerQueueRef: {name: orders}, expectedAtMost: 1000}`)
	s.EventuallyPurge(purge, Condition("Ready", "True", "Completed"))
	s.VHost.Purge("orders")
	Expect(s.Kube.Delete(ctx(), s.GetRedrive(redrive))).To(Succeed())
	Expect(s.Kube.Delete(ctx(), s.GetPurge(purge))).To(Succeed())
	// A sentinel that expires in a tier waits for the broker's next attempt to deliver it, every three minutes. Warren's retry budget is ten.
	Eventually(func() bool { return slices.ContainsFunc(come, s.Exists) }).WithTimeout(deadline.For(2 * time.Minute)).Should(BeFalse())
	s.AllReady(len(s.stay) + 1)
}

func medianOf(numbers []int) int { return median(slices.Sorted(slices.Values(numbers))) }
