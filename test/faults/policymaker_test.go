package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A missing permission", func() {
	It("on policies retains and reports a queue that left the spec, and the queue is deleted when the permission is granted", Extended, func() {
		w := newBareWorld(shared)
		user := shared.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		startManager(w)
		w.Queue("orders", `{retry: {delayTiers: [{delay: 1s}, {delay: 5s}]}}`)
		w.settled(1)
		flow := w.flow("orders")
		w.dropLastTier("orders")
		w.Eventually("orders", HaveField("Status.Advisories", ContainElement(SatisfyAll(
			HaveField("Code", v1alpha1.AdvisoryOrphaned), HaveField("Name", "orders.retry.5s"),
			HaveField("Message", ContainSubstring("lacks the tag policymaker"))))))
		w.Ready("orders")

		shared.SetTags(GinkgoTB(), user, "management", "policymaker")
		Eventually(w.Differences).WithTimeout(deadline.For(time.Minute)).Should(BeEmpty())
		w.Eventually("orders", HaveField("Status.Advisories", BeEmpty()))
		Eventually(w.VHost.Policies).Should(BeEmpty())
		Expect(flow.noneLost().SentinelsLeft).To(BeZero())
	})
})
