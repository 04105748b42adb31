package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Two replicas", func() {
	// A restart of the operator changes nothing of what is well, and an upgrade is one: the queues of consumers do not notice.
	It("have one leader; when it is killed the other takes over and goes on", func() {
		w := newWorld(shared)
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
		// A lease lasts 15 seconds, and is asked for every two.
		Eventually(w.leader).WithTimeout(deadline.For(25 * time.Second)).ShouldNot(BeElementOf(first, ""))
		w.settled(4)
		w.ExpectExactly()
		Expect(other.HasEnded()).To(BeFalse())
		for _, name := range names[:2] {
			Expect(w.Get(name).ResourceVersion).To(Equal(versions[name]), "%s was well all the time", name)
		}
		flow.noneLost()

		By("handing over at once when the leader ends in good order")
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

// replica starts a manager that is one of several: it works once it has the lease.
func (w *world) replica() *Manager {
	GinkgoHelper()
	return kube.StartManager(managerBinary, []string{w.Namespace}, uncounted, "--leader-elect", "--leader-election-namespace", w.Namespace)
}

// leader is the identity of the manager that has the lease.
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
