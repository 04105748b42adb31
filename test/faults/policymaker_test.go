package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
)

var _ = Describe("Access that is missing", func() {
	It("to policies keeps a queue that is not wanted any more, says so, and lets it go when it is granted", func() {
		w := newBareWorld(shared)
		user := shared.NewUser(GinkgoTB(), "management")
		w.vhost.Grant(user, ".*", ".*", ".*")
		w.secret(user.Username, user.Password)
		w.connect(w.vhost.Name)
		startManager(w)
		w.queue("orders", `{retry: {delayTiers: [{delay: 1s}, {delay: 5s}]}}`)
		w.settled(1)
		flow := w.flow("orders")
		w.dropLastTier("orders")
		w.eventually("orders", HaveField("Status.Advisories", ContainElement(SatisfyAll(
			HaveField("Code", v1alpha1.AdvisoryOrphaned), HaveField("Name", "orders.retry.5s"),
			HaveField("Message", ContainSubstring("lacks the tag policymaker"))))))
		w.ready("orders")

		shared.SetTags(GinkgoTB(), user, "management", "policymaker")
		Eventually(func() []string { return desired(w.broker, w.all()).differences(observed(w.vhost)) }).
			WithTimeout(deadline.For(time.Minute)).Should(BeEmpty())
		w.eventually("orders", HaveField("Status.Advisories", BeEmpty()))
		Eventually(w.vhost.Policies).Should(BeEmpty())
		Expect(flow.noneLost().SentinelsLeft).To(BeZero())
	})
})
