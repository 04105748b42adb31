package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// How many messages are redriven, and how often something goes wrong meanwhile; `make chaos-redrive` gives larger numbers.
var (
	redriven = numberFrom("WARREN_CHAOS_MESSAGES", 3000)
	mishaps  = numberFrom("WARREN_CHAOS_FAULTS", 2)
)

// window is how many messages of a Redrive wait for their confirm at most.
const window = 500

var _ = Describe("A Redrive", Label("redrive"), func() {
	It("whose manager is killed loses no message, and moves few twice", func() {
		r := newRedrive(newWorld(shared))
		r.suffer(func() {
			r.manager.Kill()
			r.manager = startManager(r.world)
		})
		r.expectMoved(mishaps * window)
	})

	It("whose manager is restarted loses no message, and moves none twice", func() {
		r := newRedrive(newWorld(shared))
		r.suffer(func() {
			r.manager.Stop()
			r.manager = startManager(r.world)
		})
		r.expectMoved(0)
	})

	It("whose connections are cut loses no message, and moves few twice", func() {
		r := newRedrive(newWorld(shared))
		r.suffer(r.amqp.Cut)
		r.expectMoved(mishaps * window)
	})

	It("whose broker is killed loses no message, and moves few twice", Long, func() {
		private := brokers.NewPrivate(GinkgoTB())
		r := newRedrive(newStraightWorld(private.Broker))
		DeferCleanup(private.Start) // should the test fail in between
		r.suffer(func() {
			private.Stop()
			private.Start()
		})
		r.expectMoved(mishaps * window)
	})

	It("whose broker takes no messages stands still, goes on by itself, and moves none twice", Long, func() {
		private := brokers.NewPrivate(GinkgoTB())
		r := newRedrive(newStraightWorld(private.Broker))
		r.takes = time.Duration(mishaps) * 30 * time.Second // a busy machine takes seconds to raise an alarm
		const memory = "{resource_limit, memory, node()}"
		r.suffer(func() {
			private.Eval("rabbit_alarm:set_alarm({" + memory + ", []}).")
			r.EventuallyRedrive("again", Condition("Ready", metav1.ConditionUnknown, v1alpha1.ReasonBlocked))
			private.Eval("rabbit_alarm:clear_alarm(" + memory + ").")
		})
		r.expectMoved(0)
	})

	It("takes little memory of the manager and few writes of its status, however many messages there are", func() {
		r := newRedrive(newWorld(shared))
		writes, before := r.countWrites(), memoryOf(r.manager)
		peak := before
		r.begin()
		Eventually(func() *v1alpha1.Redrive {
			peak = max(peak, memoryOf(r.manager))
			return r.GetRedrive("again")
		}).WithTimeout(deadline.For(10 * time.Minute)).WithPolling(100 * time.Millisecond).
			Should(Condition("Ready", metav1.ConditionTrue, "Completed"))
		written := writes.of()["Redrive/again"]
		AddReportEntry("Redrive", ReportEntryVisibilityAlways, fmt.Sprintf(
			"%d messages: %d writes of the status, the manager took %d MiB, and up to %d MiB more", redriven, written, before>>20, (peak-before)>>20))
		Expect(peak - before).To(BeNumerically("<=", 40<<20))
		Expect(written).To(BeNumerically("<=", 30))
	})
})

// redrive moves numbered dead letters to the main queue of the ConsumerQueue orders.
type redrive struct {
	*world

	manager *Manager
	takes   time.Duration // to move all messages if nothing goes wrong; zero if as fast as can be
	began   time.Time
}

func newRedrive(w *world) *redrive {
	GinkgoHelper()
	r := &redrive{world: w, manager: startManager(w)}
	if redriven <= 50_000 { // there must be time for something to go wrong
		r.takes = 4 * time.Second
	}
	w.Queue("orders", ordinary)
	w.settled(1)
	bodies := make([]string, redriven)
	for i := range bodies {
		bodies[i] = strconv.Itoa(i)
	}
	for some := range slices.Chunk(bodies, 50_000) {
		w.VHost.Publish("", "orders.dlq", some...)
	}
	return r
}

// begin has the messages moved.
func (r *redrive) begin() {
	GinkgoHelper()
	rate := v1alpha1.Unlimited
	if r.takes > 0 {
		rate = strconv.Itoa(redriven/int(r.takes.Seconds()) + 1)
	}
	r.began = time.Now()
	r.Redrive("again", fmt.Sprintf("{consumerQueueRef: {name: orders}, maxDestinationDepth: Unlimited, rate: %s}", rate))
}

// suffer begins, and has something go wrong again and again while messages are moved.
func (r *redrive) suffer(mishap func()) {
	GinkgoHelper()
	r.begin()
	for i := range mishaps {
		Eventually(r.VHost.Ready).WithArguments("orders").WithTimeout(deadline.For(2 * time.Minute)).WithPolling(50 * time.Millisecond).
			Should(BeNumerically(">=", (i+1)*redriven/(mishaps+1)))
		mishap()
	}
}

// expectMoved waits for the end, and expects each message in the main queue, and so many twice at most.
func (r *redrive) expectMoved(twiceAtMost int) {
	GinkgoHelper()
	Eventually(r.GetRedrive).WithArguments("again").WithTimeout(deadline.For(10 * time.Minute)).
		Should(Condition("Ready", metav1.ConditionTrue, "Completed"))
	took := time.Since(r.began)
	Eventually(r.VHost.Ready).WithArguments("orders.dlq").Should(BeZero())
	lost, twice := 0, 0
	for _, times := range r.moved() {
		if times == 0 {
			lost++
		} else {
			twice += times - 1
		}
	}
	AddReportEntry("Redrive", ReportEntryVisibilityAlways, fmt.Sprintf(
		"%d messages in %v, %d faults: %d lost, %d twice", redriven, took.Round(100*time.Millisecond), mishaps, lost, twice))
	Expect(lost).To(BeZero())
	Expect(twice).To(BeNumerically("<=", twiceAtMost))
}

// moved is how often each message is in the main queue.
func (r *redrive) moved() []int {
	GinkgoHelper()
	moved := make([]int, redriven)
	for _, number := range r.numbersIn("orders") {
		moved[number]++
	}
	return moved
}

// numbersIn takes all messages out of a queue, in their order.
func (r *redrive) numbersIn(queue string) []int {
	GinkgoHelper()
	connection, err := r.VHost.Connect("account")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	numbers := make([]int, r.VHost.Ready(queue))
	messages, err := channel.Consume(queue, "", true, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	for i := range numbers {
		numbers[i], err = strconv.Atoi(string((<-messages).Body))
		Expect(err).NotTo(HaveOccurred())
	}
	return numbers
}

// memoryOf is what a manager has of the machine's memory, in bytes.
func memoryOf(manager *Manager) int {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", manager.Command.Process.Pid))
	Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	Expect(err).NotTo(HaveOccurred())
	return kilobytes << 10
}

func numberFrom(variable string, unless int) int {
	if given, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return given
	}
	return unless
}
