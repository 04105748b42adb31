package cluster

import (
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A Redrive", func() {
	It("loses no message and moves few twice when the node with the queues' leaders is killed or stopped", func() {
		const messages, rate = 1000, 100
		const window = rate / 4
		w := newWorld(1, 1)
		w.Queue("orders", `{}`)
		w.AllReady(1)
		bodies := make([]string, messages)
		for i := range bodies {
			bodies[i] = strconv.Itoa(i)
		}
		for number, end := range map[int]func(number int){2: nodes.Kill, 3: nodes.Stop} {
			w.VHost.Publish("", "orders.dlq", bodies...)
			w.lead(number)
			name := fmt.Sprintf("node-%d", number)
			w.Redrive(name, fmt.Sprintf(`{consumerQueueRef: {name: orders}, rate: %d}`, rate))
			Eventually(w.VHost.Ready).WithArguments("orders").WithPolling(50 * time.Millisecond).Should(BeNumerically(">=", messages/4))
			end(number)
			ended := w.EventuallyRedrive(name, Condition("Ready", metav1.ConditionTrue, "Completed"))
			nodes.Start(number)
			Expect(*ended.Status.Moved).To(BeNumerically(">=", messages))
			Eventually(w.VHost.Ready).WithArguments("orders.dlq").Should(BeZero())
			times := map[string]int{}
			for _, body := range w.take("orders", messages) {
				times[body]++
			}
			Expect(times).To(HaveLen(messages), "none is lost")
			twice := -messages
			for _, count := range times {
				twice += count
			}
			AddReportEntry(fmt.Sprintf("moved twice when node %d ended", number), twice)
			Expect(twice).To(BeNumerically("<=", window))
		}
	})
})

// lead makes a node the leader of the vhost's quorum queues.
func (w *world) lead(number int) {
	GinkgoHelper()
	name := nodes.Name(number)
	queues := fmt.Sprintf(`Q <- rabbit_amqqueue:list(<<"%s">>), amqqueue:is_quorum(Q)`, w.VHost.Name)
	nodes.Lead(number, w.VHost.Name)
	Eventually(func() string {
		return nodes.Eval(number, fmt.Sprintf(`lists:usort([element(2, amqqueue:get_pid(Q)) || %s]) == ['%s'].`, queues, name))
	}).Should(Equal("true"))
}

// take waits until a queue has count messages, removes them, and returns their bodies.
func (w *world) take(queue string, atLeast int) []string {
	GinkgoHelper()
	connection, err := w.VHost.Connect("take")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	var ready int
	Eventually(func() int {
		ready = w.VHost.Ready(queue)
		return ready
	}).Should(BeNumerically(">=", atLeast))
	messages, err := channel.Consume(queue, "", true, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	bodies := make([]string, ready)
	for i := range bodies {
		bodies[i] = string((<-messages).Body)
	}
	return bodies
}
