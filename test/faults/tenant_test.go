package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// tenant is a namespace with two BrokerConnections to one vhost with different addresses.
type tenant struct {
	*world

	// second are the proxies of the BrokerConnection "second".
	second *world
	edits  int
}

func newTenant(broker brokers.Broker) *tenant {
	GinkgoHelper()
	first := newWorld(broker)
	second := &world{
		World: first.World,
		amqp:  netfault.NewProxy(GinkgoTB(), broker.AMQPURI), management: netfault.NewProxy(GinkgoTB(), broker.ManagementURI),
	}
	first.Apply(&v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "second"},
		Spec: v1alpha1.BrokerConnectionSpec{
			SecretRef: &v1alpha1.LocalObjectReference{Name: "rabbitmq"}, VHost: first.VHost.Name,
			AMQPURI: second.amqp.URI, ManagementURI: second.management.URI, ResyncInterval: "1s",
		},
	})
	return &tenant{world: first, second: second}
}

// countCompared returns the number of ConsumerQueues that were compared with the broker.
func (t *tenant) countCompared() int {
	GinkgoHelper()
	count := 0
	for _, cq := range t.All() {
		if cq.Status.ObservedGeneration == cq.Generation && readyReason(&cq) == v1alpha1.ReasonDrifted {
			count++
		}
	}
	return count
}

func (t *tenant) proxies() []*netfault.Proxy {
	return []*netfault.Proxy{t.amqp, t.management, t.second.amqp, t.second.management}
}

// hold makes both brokers silent until release is called.
func (t *tenant) hold() {
	for _, p := range t.proxies() {
		p.Hold()
	}
}

func (t *tenant) release() {
	for _, p := range t.proxies() {
		p.Release()
	}
}

// edit applies a number of ConsumerQueues to each BrokerConnection. Each call adds a binding to each of them. To declare it,
// no refresh is needed.
func (t *tenant) edit(count int) {
	GinkgoHelper()
	t.edits++
	keys := make([]string, t.edits)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	t.apply(count, fmt.Sprintf("retry: {delayTiers: [{delay: 1s}]}, bindings: [{exchange: {name: edits, type: topic}, routingKeys: [%s]}]",
		strings.Join(keys, ", ")))
}

// apply applies a number of ConsumerQueues to each BrokerConnection.
func (t *tenant) apply(count int, spec string) {
	GinkgoHelper()
	t.Queues("first", count, "{"+spec+"}")
	t.Queues("second", count, "{connectionRef: {name: second}, "+spec+"}")
}

// flap closes the connections to both brokers every two seconds until the returned function is called.
func (t *tenant) flap() (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(2 * time.Second)
		defer ticker.Stop()
		for {
			for _, p := range t.proxies() {
				p.Refuse()
				p.Accept()
			}
			select {
			case <-ticker.C:
			case <-stopping:
				return
			}
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

// `make bench-tenants` measures these times. ADR 0041 explains the limit.
var _ = Describe("A ConsumerQueue beside a tenant", Label("bench", "tenants"), func() {
	const edited = 20 // ConsumerQueues of each BrokerConnection

	It("whose brokers fall silent becomes Ready in at most three times the usual time", func() {
		healthy, bad := newWorld(shared), newTenant(other())
		startManager(healthy, bad.world)
		bad.edit(edited)
		bad.AllReady(2 * edited)
		healthy.compare(func() {
			bad.hold()
			bad.edit(edited)
		}, func() {
			bad.release()
			bad.AllReady(2 * edited)
		})
	})

	It("whose brokers close their connections repeatedly becomes Ready in at most three times the usual time", func() {
		const flapping = 1000
		healthy, bad := newWorld(shared), newTenant(other())
		startManager(healthy, bad.world)
		bad.apply(flapping, "driftPolicy: Report") // needs no work of the broker
		Eventually(bad.countCompared).WithTimeout(deadline.For(time.Minute)).Should(Equal(2 * flapping))
		var stop func()
		healthy.compare(func() { stop = bad.flap() }, func() { stop() })
	})

	It("whose brokers take two seconds for each response becomes Ready in at most three times the usual time", func() {
		healthy, bad := newWorld(shared), newTenant(other())
		answers := netfault.NewSlowAMQP(GinkgoTB(), bad.VHost.Broker.AMQPURI)
		bad.amqp.LeadTo(answers.URI)
		bad.second.amqp.LeadTo(answers.URI)
		startManager(healthy, bad.world)
		bad.edit(edited)
		bad.AllReady(2 * edited)
		healthy.compare(func() {
			answers.Pause(2 * time.Second)
			bad.edit(edited)
		}, func() {
			answers.Pause(0)
			bad.AllReady(2 * edited)
		})
	})
})

// other returns a broker other than shared, if there is one, because the tenant's load on its own broker is not measured.
func other() brokers.Broker {
	if len(older) > 0 {
		return older[0]
	}
	return shared
}

// compare measures how long a ConsumerQueue takes to become Ready, in ten alternating rounds: while another tenant behaves well, and
// while it misbehaves for longer than an operation may take. It uses medians, because other processes disturb single rounds.
func (w *world) compare(misbehave, behave func()) {
	GinkgoHelper()
	const rounds, maxRatio = 10, 3
	var alone, beside, all []time.Duration
	for round := range rounds {
		alone = append(alone, median(w.timesToReady(fmt.Sprintf("alone-%d", round), 2*time.Second)))
		misbehave()
		times := w.timesToReady(fmt.Sprintf("beside-%d", round), 12*time.Second)
		behave()
		beside, all = append(beside, median(times)), append(all, times...)
		_, _ = fmt.Fprintf(os.Stderr, "round %d: alone %v, beside %v, at most %v\n", round, alone[round], beside[round], longest(times))
	}
	for _, times := range [][]time.Duration{alone, beside, all} {
		slices.Sort(times)
	}
	ratio := float64(longest(beside)) / float64(median(alone))
	AddReportEntry("time to Ready", fmt.Sprintf(
		"alone %v (median), %v (slowest round); beside %v, %v, and %v (the slowest of %d); ratio of slowest round to median alone %.1f",
		median(alone), longest(alone), median(beside), longest(beside), longest(all), len(all), ratio))
	Expect(ratio).To(BeNumerically("<=", maxRatio), "alone %v, beside %v", alone, beside)
}

// timesToReady returns the times from the creation of a ConsumerQueue until it is Ready, ascending. It creates one after the other, as
// long as the given time lasts.
func (w *world) timesToReady(prefix string, window time.Duration) []time.Duration {
	GinkgoHelper()
	var times []time.Duration
	for began := time.Now(); time.Since(began) < window; {
		name, created := fmt.Sprintf("%s-%d", prefix, len(times)), time.Now()
		w.Queue(name, ordinary)
		Eventually(func() bool { return IsReady(w.Get(name)) }).
			WithTimeout(deadline.For(time.Minute)).WithPolling(10 * time.Millisecond).Should(BeTrue())
		times = append(times, time.Since(created))
	}
	slices.Sort(times)
	return times
}
