package faults

import (
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Two replicas", func() {
	// A restart of the operator, as in an upgrade, does not affect queues and consumers.
	It("have one leader, and the other one takes over and continues when the leader is killed", func() {
		w := newWorld(shared)
		w.Connect(unhurried)
		leader := w.replica()
		var first string
		Eventually(func() string { first = w.leader(); return first }).ShouldNot(BeEmpty())
		other := w.replica()
		names := w.Queues("orders", 3, ordinary)
		w.settled(3)
		flow := w.flow(names[0])
		versions := w.versions()

		leader.Kill()
		w.Queue("later", ordinary)
		w.VHost.DeleteQueue(names[2] + ".dlq")
		// A lease lasts 15 seconds and is polled every two.
		Eventually(w.leader).WithTimeout(deadline.For(25 * time.Second)).ShouldNot(BeElementOf(first, ""))
		w.settled(4)
		w.ExpectExactly()
		Expect(other.HasEnded()).To(BeFalse())
		for _, name := range names[:2] {
			Expect(w.Get(name).ResourceVersion).To(Equal(versions[name]), "%s was well all the time", name)
		}
		flow.noneLost()

		By("handing over immediately when the leader stops gracefully")
		second := w.leader()
		third := w.replica()
		other.Stop()
		Expect(w.leader()).NotTo(Equal(second), "it gives the lease back before it ends")
		Eventually(w.leader).WithTimeout(deadline.For(8 * time.Second)).ShouldNot(BeElementOf(second, ""))
		w.Queue("last", ordinary)
		w.settled(5)
		Expect(third.HasEnded()).To(BeFalse())
	})
})

var _ = Describe("A leader that is paused during deletions and resumes when another one leads", Extended, Long, func() {
	It("deletes nothing and changes no fence", func() {
		w := newBareWorld(shared)
		management := netfault.NewHTTPProxy(GinkgoTB(), shared.ManagementURI, netfault.HTTPOptions{})
		w.Broker.ManagementURI = management.URI
		w.connect(shared.Username, shared.Password)
		leader := w.replica()
		names := w.Queues("orders", deletedTogether(), patient)
		w.AllReady(deletedTogether())
		first := w.leader()
		w.Delete(names...)
		w.pauseAtFence(leader)

		w.replica()
		Eventually(w.leader).WithTimeout(deadline.For(25 * time.Second)).ShouldNot(BeElementOf(first, ""))
		w.eventuallyNone(4 * time.Minute)
		Eventually(w.VHost.Policies).WithTimeout(deadline.For(2 * time.Minute)).WithPolling(time.Second).Should(BeEmpty())

		By("resuming deletions of queues that others have declared again")
		for _, name := range names {
			w.VHost.DeclareQueue(name, map[string]any{"x-queue-type": "quorum"})
		}
		var changes atomic.Int32
		management.Before(func(request *http.Request) {
			if request.Method != http.MethodGet {
				changes.Add(1)
			}
		})
		leader.Resume()
		Eventually(leader.Ended).WithTimeout(deadline.For(25 * time.Second)).Should(BeClosed())
		Expect(w.VHost.Definitions().Queues).To(HaveLen(len(names)))
		Expect(changes.Load()).To(BeZero(), "policies were written")
	})
})

// replica starts one of several managers. It works when it has the lease.
func (w *world) replica() *Manager {
	GinkgoHelper()
	return kube.StartManager(managerBinary, []string{w.Namespace}, uncounted, "--leader-elect", "--leader-election-namespace", w.Namespace)
}

// leader returns the identity of the manager that has the lease.
func (w *world) leader() string {
	GinkgoHelper()
	leases := &coordinationv1.LeaseList{}
	Expect(kube.List(ctx(), leases, client.InNamespace(w.Namespace))).To(Succeed())
	for _, lease := range leases.Items {
		if lease.Spec.HolderIdentity != nil {
			return *lease.Spec.HolderIdentity
		}
	}
	return ""
}
