package faults

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// redriven is the number of messages and mishaps the number of faults meanwhile; `make chaos-redrive` sets larger numbers.
var (
	redriven = numberFrom("WARREN_CHAOS_MESSAGES", 3000)
	mishaps  = numberFrom("WARREN_CHAOS_FAULTS", 2)
)

// unproven is how many messages of a Redrive may be acknowledged without a proof, or wait for their confirm, when something crashes.
// unprovenOfSome is the same number if some messages stay. Both are the sum of the prefetches of the channels of one connection.
const (
	unproven       = 1000
	unprovenOfSome = 4096
)

var _ = Describe("A Redrive", Label("redrive"), func() {
	It("whose manager is killed loses no message and moves few twice", func() {
		r := newRedrive(newWorld(shared))
		r.causeFaults(func() {
			r.manager.Kill()
			r.manager = startManager(r.world)
		})
		r.expectMoved(mishaps * unproven)
	})

	It("with maxMessages whose manager is killed moves at most maxMessages and reports how many", Extended, func() {
		r := newRedrive(newWorld(shared))
		r.limit = redriven / 2
		r.takes = max(r.takes, time.Duration(r.limit)*time.Millisecond) // so that the steps of atMost are small
		r.causeFaults(func() {
			r.manager.Kill()
			r.manager = startManager(r.world)
		})
		Eventually(r.GetRedrive).WithArguments("again").WithTimeout(deadline.For(10 * time.Minute)).
			Should(Condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonIncomplete))
		distinct, copies := 0, r.moved()
		for _, times := range copies {
			distinct += min(times, 1)
		}
		Expect(distinct).To(BeNumerically("<=", r.limit))
		r.expectRange(distinct)
		// A message that was moved right before a kill is in both queues.
		r.EventuallyMessages("orders.dlq", And(BeNumerically(">=", redriven-distinct), BeNumerically("<=", redriven-distinct+mishaps*unproven)))
		for _, number := range r.numbersIn("orders.dlq") {
			copies[number]++
		}
		Expect(copies).NotTo(ContainElement(0), "a message was lost")
	})

	It("whose manager is restarted loses no message and moves none twice", Extended, func() {
		r := newRedrive(newWorld(shared))
		r.causeFaults(func() {
			r.manager.Stop()
			r.manager = startManager(r.world)
		})
		r.expectMoved(0)
	})

	It("that selects messages and whose manager is killed loses none, moves few twice, and leaves the others", Extended, Long, func() {
		r := newRedrive(newWorld(shared))
		r.even = true
		r.causeFaults(func() {
			r.manager.Kill()
			r.manager = startManager(r.world)
		})
		r.expectMoved(mishaps * unprovenOfSome)
		r.expectOdd()
	})

	It("that selects messages and whose manager is restarted moves none twice, and leaves the others", Extended, Long, func() {
		r := newRedrive(newWorld(shared))
		r.even = true
		r.causeFaults(func() {
			r.manager.Stop()
			r.manager = startManager(r.world)
		})
		r.expectMoved(0)
		r.expectOdd()
	})

	It("whose leader is killed is completed by the other replica, loses no message, and moves few twice", Extended, Long, func() {
		w := newWorld(shared)
		leader := w.replica()
		var first string
		Eventually(func() string { first = w.leader(); return first }).ShouldNot(BeEmpty())
		r := newRedriveOf(w, leader)
		other := w.replica()
		r.begin()
		Eventually(r.VHost.Ready).WithArguments("orders").WithPolling(50 * time.Millisecond).Should(BeNumerically(">=", redriven/2))
		leader.Kill()
		r.expectMoved(unproven)
		Expect(w.leader()).NotTo(Equal(first))
		Expect(other.HasEnded()).To(BeFalse())
	})

	for _, broker := range older {
		It("whose manager is killed and whose connections are cut loses no message, and moves few twice, on RabbitMQ "+broker.Version, Extended, Long, func() {
			r := newRedrive(newWorld(broker))
			r.causeFaults(func() {
				r.manager.Kill()
				r.manager = startManager(r.world)
				moved := r.VHost.Ready("orders")
				Eventually(r.VHost.Ready).WithArguments("orders").WithPolling(50 * time.Millisecond).Should(BeNumerically(">", moved))
				r.amqp.Cut()
			})
			r.expectMoved(2 * mishaps * unproven)
		})
	}

	It("whose connections are cut loses no message, and moves few twice", Extended, func() {
		r := newRedrive(newWorld(shared))
		r.causeFaults(r.amqp.Cut)
		r.expectMoved(mishaps * unproven)
	})

	It("whose broker is killed loses no message, and moves few twice", Extended, Long, func() {
		private := brokers.NewPrivate(GinkgoTB())
		r := newRedrive(newStraightWorld(private.Broker))
		DeferCleanup(private.Start) // if the test fails before
		r.causeFaults(func() {
			private.Stop()
			private.Start()
		})
		r.expectMoved(mishaps * unproven)
	})

	It("whose broker blocks publishers pauses, continues by itself, and moves no message twice", Extended, Long, func() {
		private := brokers.NewPrivate(GinkgoTB())
		r := newRedrive(newStraightWorld(private.Broker))
		// A busy machine takes many seconds to raise an alarm. The rate is raised after the last one.
		r.takes, r.beforeFaultsEnd = time.Duration(mishaps)*time.Minute, redriven/5
		const memory = "{resource_limit, memory, node()}"
		r.causeFaults(func() {
			private.Eval("rabbit_alarm:set_alarm({" + memory + ", []}).")
			r.EventuallyRedrive("again", Condition("Ready", metav1.ConditionUnknown, v1alpha1.ReasonBlocked))
			private.Eval("rabbit_alarm:clear_alarm(" + memory + ").")
		})
		r.EditRedrive("again", func(spec *v1alpha1.RedriveSpec) { spec.Rate = new(intstr.FromString(v1alpha1.Unlimited)) })
		r.rate = 0
		r.expectMoved(0)
	})

	It("leaves and names a message that exceeds the broker's new size limit, and moves the others", Extended, Long, func() {
		private := brokers.NewPrivate(GinkgoTB())
		w := newStraightWorld(private.Broker)
		startManager(w)
		w.Queue("orders", ordinary)
		w.settled(1)
		const maxSize = 16 << 20
		private.Eval(fmt.Sprintf("persistent_term:put(max_message_size, %d).", 2*maxSize))
		w.VHost.Publish("", "orders.dlq", "before", strings.Repeat("x", maxSize+1), "behind")
		private.Eval(fmt.Sprintf("persistent_term:put(max_message_size, %d).", maxSize))
		w.Redrive("again", "{consumerQueueRef: {name: orders}}")
		ended := w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonIncomplete))
		Expect(*ended.Status.Moved).To(BeEquivalentTo(2))
		Expect(ended.Status.Failures).To(ConsistOf(SatisfyAll(HaveField("Reason", "BodyTooLarge"), HaveField("Message", ContainSubstring(
			"its body has 16777217 bytes")))))
		Eventually(w.VHost.Ready).WithArguments("orders.dlq").Should(Equal(1))
		w.EventuallyMessages("orders", BeNumerically(">=", 2))
	})

	It("uses little memory of the manager and few status writes for any number of messages", Extended, func() {
		r := newRedrive(newWorld(shared))
		writes, memory := r.countWrites(), watchMemory(r.manager)
		r.begin()
		Eventually(r.GetRedrive).WithArguments("again").WithTimeout(deadline.For(10 * time.Minute)).WithPolling(100 * time.Millisecond).
			Should(Condition("Ready", metav1.ConditionTrue, "Completed"))
		before, peak := memory()
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
	takes   time.Duration // time to move all messages without a fault; zero for unlimited
	even    bool          // only messages with even numbers are moved
	limit   int           // maxMessages; none if zero
	rate    int           // messages per second; unlimited if zero
	began   time.Time
	// beforeFaultsEnd is how many messages are moved before the last fault; all but a part if zero.
	beforeFaultsEnd int
}

func newRedrive(w *world) *redrive {
	GinkgoHelper()
	return newRedriveOf(w, startManager(w))
}

// newRedriveOf is newRedrive for a running manager.
func newRedriveOf(w *world, manager *Manager) *redrive {
	GinkgoHelper()
	r := &redrive{world: w, manager: manager}
	if redriven <= 50_000 { // there must be time for faults
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

// begin creates the Redrive.
func (r *redrive) begin() {
	GinkgoHelper()
	rate := v1alpha1.Unlimited
	if r.takes > 0 {
		r.rate = r.selected()/int(r.takes.Seconds()) + 1
		rate = strconv.Itoa(r.rate)
	}
	r.began = time.Now()
	more := ""
	if r.even {
		more = `, selector: {expression: "int(body) % 2 == 0"}`
	}
	if r.limit > 0 {
		more += fmt.Sprintf(", maxMessages: %d", r.limit)
	}
	r.Redrive("again", fmt.Sprintf("{consumerQueueRef: {name: orders}, maxDestinationDepth: Unlimited, rate: %s%s}", rate, more))
}

// selected returns the number of messages to be moved.
func (r *redrive) selected() int {
	switch {
	case r.limit > 0:
		return r.limit
	case r.even:
		return redriven / 2
	}
	return redriven
}

// causeFaults calls begin and causes faults repeatedly while messages are moved.
func (r *redrive) causeFaults(mishap func()) {
	GinkgoHelper()
	r.begin()
	all := cmp.Or(r.beforeFaultsEnd, r.selected())
	for i := range mishaps {
		Eventually(func() bool {
			return r.VHost.Ready("orders") >= (i+1)*all/(mishaps+1) || r.GetRedrive("again").Status.CompletionTime != nil
		}).WithTimeout(deadline.For(2 * time.Minute)).WithPolling(50 * time.Millisecond).Should(BeTrue())
		mishap()
	}
}

// expectMoved waits for the end, and expects exactly the selected messages in the main queue, at most the given number twice.
func (r *redrive) expectMoved(twiceAtMost int) {
	GinkgoHelper()
	Eventually(r.GetRedrive).WithArguments("again").WithTimeout(deadline.For(10 * time.Minute)).
		Should(Condition("Ready", metav1.ConditionTrue, "Completed"))
	took := time.Since(r.began)
	Eventually(r.VHost.Ready).WithArguments("orders.dlq").Should(Equal(redriven - r.selected()))
	lost, twice := 0, 0
	for number, times := range r.moved() {
		switch {
		case r.even && number%2 == 1:
			Expect(times).To(BeZero(), "message %d is not selected", number)
		case times == 0:
			lost++
		default:
			twice += times - 1
		}
	}
	AddReportEntry("Redrive", ReportEntryVisibilityAlways, fmt.Sprintf(
		"%d messages in %v, %d faults: %d lost, %d twice", r.selected(), took.Round(100*time.Millisecond), mishaps, lost, twice))
	Expect(lost).To(BeZero())
	Expect(twice).To(BeNumerically("<=", twiceAtMost))
	r.expectRange(r.selected())
}

// expectRange expects the number of distinct moved messages within the status's range. docs/how-to/redrive.md documents the width:
// five seconds of the rate, or 20,000 messages, and for each fault a 64th of that and unproven.
func (r *redrive) expectRange(distinct int) {
	GinkgoHelper()
	status := r.GetRedrive("again").Status
	lower, upper := int(*status.Moved), int(*status.Moved)
	if status.AtMost != nil {
		upper = int(*status.AtMost)
	}
	width := 20_000
	if r.rate > 0 {
		width = 5 * r.rate
	}
	width += mishaps * (unproven + width/64)
	if r.even {
		width += mishaps * (unprovenOfSome - unproven)
	}
	AddReportEntry("Redrive", ReportEntryVisibilityAlways, fmt.Sprintf(
		"%d distinct messages moved, from %d to %d by the status; at most %d wide", distinct, lower, upper, width))
	Expect(distinct).To(And(BeNumerically(">=", lower), BeNumerically("<=", upper)), "distinct messages moved")
	Expect(upper-lower).To(BeNumerically("<=", width), "width of the range")
}

// moved returns how often each message is in the main queue.
func (r *redrive) moved() []int {
	GinkgoHelper()
	moved := make([]int, redriven)
	for _, number := range r.numbersIn("orders") {
		moved[number]++
	}
	return moved
}

// numbersIn removes all messages from a queue and returns their numbers in order.
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

// watchMemory observes a manager's memory until the function is called or the test ends. It returns the first and the highest value in
// bytes.
func watchMemory(manager *Manager) func() (before, peak int) {
	GinkgoHelper()
	before := memoryOf(manager)
	peak, stop, stopped := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, memoryOf(manager))
			}
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
	DeferCleanup(end)
	return func() (int, int) {
		end()
		return before, peak
	}
}

func numberFrom(variable string, unless int) int {
	if given, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return given
	}
	return unless
}
