package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// benchPercent is the percentage of rounds, messages and ConsumerQueues to use.
var benchPercent = numberFrom("WARREN_RECREATE_PERCENT", 100)

// benchShare returns the share of a number.
func benchShare(full int) int { return max(1, full*benchPercent/100) }

const benchTitle = "How long recreations take"

// A benchmark reports its times and fails only if a message is lost.
var _ = Describe("A recreation on an idle broker", Label("bench", "recreate"), func() {
	for _, name := range setupsFrom("4.3") {
		row := func(what, bar string, measured any) { recreationRow(benchTitle, name, what, bar, measured) }

		It("of an empty queue, and after a kill of the manager, on RabbitMQ "+name, func() {
			r := newRecreating(newSetup(name))
			var took []time.Duration
			for range benchShare(30) {
				begun := time.Now()
				ended := r.edit(v1alpha1.RecreatePolicyWhenEmpty)
				r.await(func() bool { return ended() != nil && IsReady(r.Get("orders")) })
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			for i := range benchShare(10) {
				ended := r.edit(v1alpha1.RecreatePolicyWhenEmpty)
				r.awaitPhase(v1alpha1.RecreationSwapping, ended)
				time.Sleep(time.Duration(i) * 40 * time.Millisecond) // the phase takes 0.4 s
				r.restartManager()
				r.await(func() bool { return ended() != nil })
			}
			calm, killed := r.fences.stood(moments(r.kills))
			row("fence", "median 1s, longest 5s", describeTimes(calm))
			row("fence, manager killed behind it", "longest 1m", describeTimes(killed))
			row("WhenEmpty, from the edit to InSync", "5s", describeTimes(took))
		})

		It("of a hundred ConsumerQueues that are edited at once, on RabbitMQ "+name, func() {
			w := newStraightWorld(newSetup(name).nodes[0])
			startManager(w)
			count := benchShare(100)
			w.Queues("orders", count, `{recreatePolicy: WhenEmpty, queue: {messageTTL: 1h}}`)
			w.settled(count)
			begun := time.Now()
			w.Queues("orders", count, `{recreatePolicy: WhenEmpty, queue: {messageTTL: 2h}}`)
			Eventually(w.countRecreated).WithTimeout(deadline.For(5 * time.Minute)).WithPolling(time.Second).Should(Equal(count))
			row(fmt.Sprintf("%d ConsumerQueues edited at once", count), "2m", time.Since(begun).Round(100*time.Millisecond))
		})

		It("of a queue with 100,000 messages under publishers, on RabbitMQ "+name, func() {
			benchMigration(newSetup(name), row)
		})

		It("of a queue with 10,000 messages in its delay tier, on RabbitMQ "+name, func() {
			benchTier(newSetup(name), row)
		})
	}
})

// countRecreated returns how many ConsumerQueues have recreated a queue and are Ready.
func (w *world) countRecreated() int {
	GinkgoHelper()
	count := 0
	for _, cq := range w.All() {
		if IsReady(&cq) && cq.Status.Recreation != nil && cq.Status.Recreation.LastResult != nil {
			count++
		}
	}
	return count
}

// benchMigration moves messages of 1 kB there and back under 500 messages per second.
func benchMigration(s *setup, row func(what, bar string, measured any)) {
	GinkgoHelper()
	r, count := newRecreating(s), benchShare(100_000)
	r.polling = 200 * time.Millisecond // fifty reads a second take a fifth of both cores
	to := []traffic.Target{{Exchange: directExchange, RoutingKey: "orders"}}
	backlog := traffic.Publish(GinkgoTB(), r.VHost, traffic.Publishing{Targets: to, Count: count, Size: 1000, Retry: true})
	backlog.Wait(GinkgoTB(), deadline.For(2*time.Minute))
	live := traffic.Publish(GinkgoTB(), r.VHost, traffic.Publishing{Targets: to, Every: 2 * time.Millisecond, Size: 1000, Retry: true})
	r.EventuallyMessages("orders", BeNumerically(">", count+1000))

	begun := time.Now()
	ended := r.edit(v1alpha1.RecreatePolicyMigrate)
	r.awaitPhase(v1alpha1.RecreationEmptying, ended)
	emptying := time.Now()
	r.awaitPhase(v1alpha1.RecreationSwapping, ended)
	there := float64(r.current().Moved) / time.Since(emptying).Seconds()
	r.awaitPhase(v1alpha1.RecreationGivingBack, ended)
	// The messages of the hold queue, which were published since the bindings were moved, are moved back, too.
	held, published, giving := r.VHost.Ready(r.current().Backlog)+r.VHost.Ready(r.current().Hold), live.Counts().Confirmed, time.Now()
	r.await(func() bool { return r.current().Phase != v1alpha1.RecreationGivingBack })
	back := float64(held+live.Counts().Confirmed-published) / time.Since(giving).Seconds()
	took := time.Since(begun)
	Expect(ended()).To(haveResult(v1alpha1.RecreationCompleted))
	live.Stop()

	order := &orderWatch{last: map[string]int{}, seen: map[string]bool{}, late: map[string]int{}}
	consumer := traffic.Consume(GinkgoTB(), r.VHost, "orders", order.take)
	r.EventuallyMessages("orders", BeZero())
	report := traffic.Account(GinkgoTB(), r.VHost, traffic.Accounting{
		Publishers: []*traffic.Publisher{backlog, live}, Consumers: []*traffic.Consumer{consumer},
	})
	what := fmt.Sprintf("Migrate of %d messages under 500/s", count)
	row(what, "3000/s each way", fmt.Sprintf("%.0f/s there, %.0f/s back, %v in all", there, back, took.Round(time.Second)))
	row(what+": out of order", "those in flight at divert and rebind", fmt.Sprintf("%d of a publisher before it, %d of a publisher meanwhile",
		order.late[backlog.Name()], order.late[live.Name()]))
	row(what+": lost, duplicates", "0 lost", fmt.Sprintf("%d, %d", len(report.Missing), report.Duplicates))
	report.NoneLost(GinkgoTB())
}

// orderWatch counts the messages of each publisher that arrive after a later one.
type orderWatch struct {
	last map[string]int
	seen map[string]bool
	late map[string]int
}

// take records the order of a delivery. Only one consumer may call it.
func (o *orderWatch) take(d traffic.Delivery) traffic.Action {
	if o.seen[d.ID] {
		return traffic.Ack
	}
	o.seen[d.ID] = true
	at := strings.LastIndexByte(d.ID, '-')
	publisher := d.ID[:at]
	number, _ := strconv.Atoi(d.ID[at+1:]) // a Publisher numbers its messages
	if number < o.last[publisher] {
		o.late[publisher]++
	}
	o.last[publisher] = max(o.last[publisher], number)
	return traffic.Ack
}

// benchTier recreates the main queue while a thousand messages per second return from its delay tier of ten seconds.
func benchTier(s *setup, row func(what, bar string, measured any)) {
	GinkgoHelper()
	const delay = 10 * time.Second
	r := newRecreating(s)
	lateness := &lateness{delay: delay}
	consume := func() *traffic.Consumer {
		began := time.Now()
		return traffic.Consume(GinkgoTB(), r.VHost, "orders", func(d traffic.Delivery) traffic.Action { return lateness.take(d, began) })
	}
	consumers := []*traffic.Consumer{consume()}
	publisher := traffic.Publish(GinkgoTB(), r.VHost, traffic.Publishing{
		Targets: []traffic.Target{traffic.ToQueue("orders.retry.10s")}, Every: time.Second / time.Duration(benchShare(1000)),
		Retry: true, RetryReturned: true,
	})
	tier := fmt.Sprintf("return from a tier with %d messages", benchShare(10_000))
	Eventually(consumers[0].Deliveries).WithTimeout(deadline.For(2 * time.Minute)).Should(BeNumerically(">", benchShare(20_000)))
	row(tier+", no recreation", "", lateness.summary(5*time.Second))
	for range benchShare(5) {
		before := consumers[len(consumers)-1].Deliveries()
		Eventually(consumers[len(consumers)-1].Deliveries).WithTimeout(deadline.For(time.Minute)).Should(BeNumerically(">", before+100))
		consumers[len(consumers)-1].Stop()
		ended := r.edit(v1alpha1.RecreatePolicyMigrate)
		r.await(func() bool { return r.current().ConsumersMayStart || ended() != nil })
		consumers = append(consumers, consume())
		r.await(func() bool { return ended() != nil })
		Expect(ended()).To(haveResult(v1alpha1.RecreationCompleted))
	}
	publisher.Stop()
	r.EventuallyMessages("orders.retry.10s", BeZero())
	r.EventuallyMessages("orders", BeZero())
	report := traffic.Account(GinkgoTB(), r.VHost, traffic.Accounting{
		Publishers: []*traffic.Publisher{publisher}, Consumers: consumers, Quiet: deadline.For(delay),
	})
	row(fmt.Sprintf("%s, %d recreations", tier, benchShare(5)), "99% within the delay + 5s, or 5s after consumers may start",
		lateness.summary(5*time.Second))
	row("messages of the tier: lost, duplicates", "0 lost", fmt.Sprintf("%d, %d", len(report.Missing), report.Duplicates))
	report.NoneLost(GinkgoTB())
}

// lateness records how late consumers get messages of a delay tier. While no consumer may consume, none gets a message.
type lateness struct {
	delay time.Duration

	mu   sync.Mutex
	late []time.Duration
}

// take is called by a consumer that began at a time.
func (l *lateness) take(d traffic.Delivery, began time.Time) traffic.Action {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := d.Sent.Add(l.delay)
	if began.After(due) {
		due = began
	}
	l.late = append(l.late, time.Since(due))
	return traffic.Ack
}

// summary describes the messages since the last summary: the percentage that was late by at most a limit, and the longest lateness.
func (l *lateness) summary(limit time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	within, longest := 0, time.Duration(0)
	for _, late := range l.late {
		longest = max(longest, late)
		if late <= limit {
			within++
		}
	}
	percent := 100 * float64(within) / float64(max(1, len(l.late)))
	l.late = nil
	return fmt.Sprintf("%.2f%%, longest %v late", percent, longest.Round(10*time.Millisecond))
}
