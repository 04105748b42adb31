package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// The load of a set-up: confirmed messages, messages per second through exchanges and to the default exchange, and kills of the manager.
// A quarter as many nodes are killed and leaders moved. `make chaos-recreate` sets larger numbers.
var (
	chaosMessages = numberFrom("WARREN_CHAOS_MESSAGES", 5000)
	chaosRate     = numberFrom("WARREN_CHAOS_RATE", 200)
	chaosPast     = numberFrom("WARREN_CHAOS_PAST", 1)
	chaosKills    = numberFrom("WARREN_CHAOS_KILLS", 4)
)

const (
	chaosTitle = "Recreations under load while managers and nodes are killed"
	// young is the age below which a queue loses its messages if its only node is killed; see docs/reliability.md.
	young = 1100 * time.Millisecond
	// maxBehind is how many messages the publishers may be ahead of the consumers. Without a limit the queue grows until no recreation can
	// give its messages back, because two cores publish more than they consume.
	maxBehind = 20_000
	// longestConfirm is how long publishers through exchanges may wait for a confirm while no node is lost.
	longestConfirm = 5 * time.Second
)

var _ = Describe("A recreation", Label("recreate"), Extended, Long, func() {
	for _, name := range setupsFrom("3.10", "4.0", "4.3", threeNodes) {
		It("whose manager and nodes are killed under load loses no message and leaves nothing, on RabbitMQ "+name, func() {
			c := newRecreateChaos(newSetup(name))
			c.run()
			c.account(name)
		})
	}
})

var _ = Describe("A recreation", Label("recreate"), Extended, Long, func() {
	for _, name := range setupsAmong("3.10", "4.0") { // where a new queue can have no leader after a kill of the node
		It("completes although a node is killed when it has just declared the hold queue, on RabbitMQ "+name, func() {
			s := newSetup(name)
			r := newRecreating(s)
			ended := r.edit(v1alpha1.RecreatePolicyWhenEmpty)
			r.await(func() bool {
				return slices.ContainsFunc(r.VHost.Definitions().Queues, func(queue brokers.Queue) bool {
					return strings.HasPrefix(queue.Name, "warren-hold-")
				})
			})
			s.lose()
			r.await(func() bool { return ended() != nil })
			Expect(ended()).To(haveResult(v1alpha1.RecreationCompleted))
			Expect(r.leftovers()).To(BeEmpty())
		})

		It("names a queue without a leader, and completes when the user has deleted it, on RabbitMQ "+name, func() {
			s := newSetup(name)
			r := newRecreating(s)
			queues := watchDeclarations(r.VHost)
			ended := r.edit(v1alpha1.RecreatePolicyWhenEmpty)
			r.awaitPhase(v1alpha1.RecreationEmptying, ended)
			r.VHost.Publish(topicExchange, "orders.placed", "one")
			r.await(queues.sawOne)
			s.lose()
			r.await(r.namesNoLeader)
			Expect(s.hasLeader(r.VHost.Name)).To(BeFalse())
			r.VHost.DeleteQueue("orders")
			r.await(func() bool { return ended() != nil })
			Expect(ended()).To(haveResult(v1alpha1.RecreationCompleted))
			Expect(r.leftovers()).To(BeEmpty())
			Eventually(r.VHost.Ready).WithArguments("orders").Should(Equal(1))
		})
	}
})

var _ = Describe("A recreation", Label("recreate"), Extended, Long, func() {
	for _, name := range setupsAmong(threeNodes) {
		It("declares a queue again that lacks a member, on RabbitMQ "+name, func() {
			s := newSetup(name)
			r := newRecreating(s)
			queues := watchDeclarations(r.VHost)
			ended := r.edit(v1alpha1.RecreatePolicyWhenEmpty)
			r.await(queues.sawOne)
			r.manager.Kill()
			s.removeMember(r.VHost.Name)
			r.manager = startManager(r.world)
			r.await(func() bool { return ended() != nil })
			Expect(ended()).To(haveResult(v1alpha1.RecreationCompleted))
			Expect(s.members(r.VHost.Name)).To(Equal(brokers.ClusterSize))
			Expect(r.leftovers()).To(BeEmpty())
		})
	}
})

// recreateChaos recreates a queue again and again, while publishers publish and consumers come and go.
type recreateChaos struct {
	*recreating

	setup *setup
	// publishers publish through exchanges; past publishes to the default exchange.
	publishers []*traffic.Publisher
	past       *traffic.Publisher
	queues     *declarationWatch
	consumers  []*traffic.Consumer
	// settled counts the messages that consumers acked or rejected. isAhead stops the publishers.
	settled atomic.Int64
	isAhead atomic.Bool
	faults  []func()
	// lost are the times without a node; moves counts the moves of leaders.
	lost      []span
	moves     int
	recreated int
	wentBack  map[string]int
	// leaderless is how often a new queue had no leader, after its only node was killed.
	leaderless int
}

func newRecreateChaos(s *setup) *recreateChaos {
	GinkgoHelper()
	c := &recreateChaos{recreating: newRecreating(s), setup: s, wentBack: map[string]int{}}
	for i, target := range []traffic.Target{
		{Exchange: topicExchange, RoutingKey: "orders.placed"},
		{Exchange: directExchange, RoutingKey: "orders"},
	} {
		c.publishers = append(c.publishers, c.publish(i, target, chaosRate/2))
	}
	c.queues = watchDeclarations(c.VHost)
	c.past = c.publish(2, traffic.ToQueue("orders"), chaosPast)
	DeferCleanup(c.slowDown())
	c.consume()
	for range chaosKills {
		c.faults = append(c.faults, c.restartManager)
	}
	for range chaosKills / 4 {
		c.faults = append(c.faults, c.loseNode)
		if s.moveLeaders != nil {
			c.faults = append(c.faults, func() {
				s.moveLeaders(c.VHost.Name)
				c.moves++
			})
		}
	}
	random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)) // reproducible with the seed of the run
	random.Shuffle(len(c.faults), func(i, j int) { c.faults[i], c.faults[j] = c.faults[j], c.faults[i] })
	return c
}

func (c *recreateChaos) publish(node int, target traffic.Target, rate int) *traffic.Publisher {
	GinkgoHelper()
	return traffic.Publish(GinkgoTB(), c.setup.node(c.VHost, node), traffic.Publishing{
		Targets: []traffic.Target{target}, Every: time.Second / time.Duration(rate), Retry: true, RetryReturned: true,
		While: func() bool { return !c.isAhead.Load() },
	})
}

// slowDown stops the publishers while they are too far ahead of the consumers, until it is stopped.
func (c *recreateChaos) slowDown() (stop func()) {
	ticker, stopped := time.NewTicker(100*time.Millisecond), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		for {
			select {
			case <-ticker.C:
				c.isAhead.Store(int64(c.confirmed())-c.settled.Load() > maxBehind)
			case <-stopped:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(stopped) }
}

func (c *recreateChaos) all() []*traffic.Publisher {
	return append(slices.Clip(c.publishers), c.past)
}

// consume starts two consumers. Of a hundred messages they requeue one, reject one, and retry one through the delay tier.
func (c *recreateChaos) consume() {
	GinkgoHelper()
	for node := range 2 {
		c.consumers = append(c.consumers, traffic.Consume(GinkgoTB(), c.setup.node(c.VHost, node), "orders", c.decide))
	}
}

func (c *recreateChaos) decide(d traffic.Delivery) traffic.Action {
	switch {
	case strings.HasSuffix(d.ID, "00") && !d.Redelivered:
		return traffic.Requeue
	case strings.HasSuffix(d.ID, "66") && d.Attempt == 1:
		return traffic.Retry(traffic.ToQueue("orders.retry.10s"))
	}
	c.settled.Add(1)
	if strings.HasSuffix(d.ID, "33") {
		return traffic.Reject
	}
	return traffic.Ack
}

func (c *recreateChaos) stopConsumers() {
	for _, consumer := range c.consumers {
		consumer.Stop()
	}
}

func (c *recreateChaos) loseNode() {
	begin := time.Now()
	c.setup.lose()
	c.lost = append(c.lost, span{begin, time.Now()})
}

func (c *recreateChaos) confirmed() int {
	count := 0
	for _, publisher := range c.all() {
		count += publisher.Counts().Confirmed
	}
	return count
}

// run recreates the queue until all faults have happened and enough messages are confirmed.
func (c *recreateChaos) run() {
	GinkgoHelper()
	for round := 0; len(c.faults) > 0 || c.confirmed() < chaosMessages; round++ {
		var ended func() *v1alpha1.RecreationResult
		if round%2 == 0 {
			ended = c.editWhenEmpty()
		} else {
			c.stopConsumers()
			ended = c.edit(v1alpha1.RecreatePolicyMigrate)
		}
		for range min(2, len(c.faults)) {
			c.awaitPhase(phases[rand.IntN(len(phases))], ended)
			time.Sleep(rand.N(300 * time.Millisecond))
			c.faults[0]()
			c.faults = c.faults[1:]
		}
		c.awaitDeleting(func() bool { return c.current().ConsumersMayStart || ended() != nil })
		c.consume()
		c.awaitDeleting(func() bool { return ended() != nil })
		result := ended()
		GinkgoWriter.Printf("round %d: %+v\n", round, *result)
		if result.Result == v1alpha1.RecreationCompleted {
			c.recreated++
		} else {
			c.wentBack[result.Reason]++
		}
	}
}

// neverLeads is longer than the only member of a queue takes to become its leader.
const neverLeads = 15 * time.Second

// awaitDeleting waits like await. If the queue gets no leader, it deletes the queue, as docs/reliability.md says.
func (c *recreateChaos) awaitDeleting(reached func() bool) {
	GinkgoHelper()
	led := time.Now()
	c.await(func() bool {
		if !c.namesNoLeader() || c.setup.hasLeader(c.VHost.Name) {
			led = time.Now()
		}
		if time.Since(led) > neverLeads {
			c.VHost.DeleteQueue("orders")
			c.leaderless++
			led = time.Now()
		}
		return reached()
	})
}

// editWhenEmpty pauses the publishers until the recreation begins: under load a queue without consumers is never empty. After a restart,
// a node returns expired messages up to three minutes late, so it also starts the consumers again.
func (c *recreateChaos) editWhenEmpty() func() *v1alpha1.RecreationResult {
	GinkgoHelper()
	for _, publisher := range c.all() {
		publisher.Pause()
	}
	c.awaitEmpty()
	c.stopConsumers()
	ended := c.edit(v1alpha1.RecreatePolicyWhenEmpty)
	c.await(func() bool {
		if c.hasReached(v1alpha1.RecreationDiverting, ended) {
			return true
		}
		if c.VHost.Ready("orders") > 0 {
			c.consume()
			c.awaitEmpty()
			c.stopConsumers()
		}
		return false
	})
	for _, publisher := range c.all() {
		publisher.Resume()
	}
	return ended
}

// awaitEmpty waits until the consumers have settled all messages, those of the delay tier included.
func (c *recreateChaos) awaitEmpty() {
	GinkgoHelper()
	for _, queue := range []string{"orders.retry.10s", "orders"} {
		Eventually(c.VHost.Ready).WithArguments(queue).WithTimeout(deadline.For(time.Minute)).Should(BeZero())
	}
}

// account adds the row of the set-up to the table, and fails if a message is lost or something is left.
func (c *recreateChaos) account(name string) {
	GinkgoHelper()
	for _, publisher := range c.all() {
		publisher.Stop()
	}
	left := c.leftovers()
	report := traffic.Account(GinkgoTB(), c.VHost, traffic.Accounting{
		Publishers: c.all(), Consumers: c.consumers, Quiet: 30 * time.Second,
	})
	missing := c.withoutYoung(report.Missing)
	lostYoung := len(report.Missing) - len(missing)
	report.Missing = missing
	waited := c.longestWait(c.publishers)
	past := c.past.Counts()
	calm, disturbed := c.fences.stood(append(moments(c.kills), c.lost...))
	recreationRow(chaosTitle, name, c.recreated, c.wentBack, fmt.Sprintf("%d, %d; %d", len(c.kills), len(c.lost), c.moves), c.leaderless,
		report.Confirmed, len(report.Missing), lostYoung, report.Duplicates, waited.Round(10*time.Millisecond),
		fmt.Sprintf("%d, %d, %v", past.Confirmed, past.Refusals, c.longestWait([]*traffic.Publisher{c.past}).Round(10*time.Millisecond)),
		describeTimes(calm), describeTimes(disturbed), len(left)+report.SentinelsLeft)
	report.NoneLost(GinkgoTB())
	Expect(c.recreated).To(BeNumerically(">", 0), "recreations")
	Expect(left).To(BeEmpty())
	Expect(report.SentinelsLeft).To(BeZero())
	Expect(waited).To(BeNumerically("<=", longestConfirm))
	for _, publisher := range c.publishers {
		Expect(publisher.Counts().Refusals+publisher.Counts().Returned).To(BeZero(), "refusals of a publisher through an exchange")
	}
}

// withoutYoung returns the lost messages, except messages that RabbitMQ loses if its only node is killed right after a declaration.
// Warren moves no message to such a young queue, so only the publisher to the default exchange can lose some.
func (c *recreateChaos) withoutYoung(missing []string) (others []string) {
	if len(c.setup.nodes) > 1 {
		return missing
	}
	for _, id := range missing {
		at, isPast := c.past.ConfirmedAt(id)
		declared, node, isYoung := c.queues.youngWith(at, c.lost)
		if !isPast || !isYoung {
			others = append(others, id)
			continue
		}
		AddReportEntry("lost with a young queue", ReportEntryVisibilityFailureOrVerbose, fmt.Sprintf(
			"%s: the queue was declared between 0s and %v, the message was confirmed at %v, and the node was killed between %v and %v", id,
			declared.took(), at.Sub(declared.begin), node.begin.Sub(declared.begin), node.end.Sub(declared.begin)))
	}
	return others
}

// longestWait returns the longest wait for a confirm that overlaps no time at which a node was down.
func (c *recreateChaos) longestWait(publishers []*traffic.Publisher) (waited time.Duration) {
	for _, publisher := range publishers {
		for _, wait := range publisher.Waits() {
			if !(span{wait.Sent, wait.Confirmed}).overlapsAny(c.lost) {
				waited = max(waited, wait.Took())
			}
		}
	}
	return waited
}
