package faults

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/test/brokers"
)

var _ = Describe("Access that is missing", func() {
	It("is named, and what waits for it goes on when it is granted", func() {
		password, vhost, tag := newBareWorld(shared), newBareWorld(shared), newBareWorld(shared)
		configure := newBareWorld(shared)
		startManager(password, vhost, tag, configure)

		password.secret(shared.Username, "wrong-password")
		password.connect(password.vhost.Name)
		vhost.vhost.Delete()
		vhost.secret(shared.Username, shared.Password)
		vhost.connect(vhost.vhost.Name)
		untagged := shared.NewUser(GinkgoTB())
		tag.vhost.Grant(untagged, ".*", ".*", ".*")
		tag.secret(untagged.Username, untagged.Password)
		tag.connect(tag.vhost.Name)
		forbidden := shared.NewUser(GinkgoTB(), "management")
		configure.vhost.Grant(forbidden, `^steady`, ".*", ".*")
		configure.secret(forbidden.Username, forbidden.Password)
		configure.connect(configure.vhost.Name)

		all := []*world{password, vhost, tag, configure}
		for _, w := range all {
			w.queue("steady", ordinary)
			w.queue("orders", ordinary)
		}
		password.denied("AuthenticationFailed", ContainSubstring(`user "guest"`))
		vhost.denied("VHostNotFound", ContainSubstring(vhost.vhost.Name))
		tag.denied("PermissionDenied", ContainSubstring("management"))
		configure.eventually("orders", condition("Ready", metav1.ConditionFalse, "PermissionDenied"),
			condition("Stalled", metav1.ConditionTrue, "PermissionDenied"),
			message(SatisfyAll(ContainSubstring("configure"), ContainSubstring(`queue "orders"`))))
		configure.ready("steady")
		flow := configure.flow("steady")

		password.secret(shared.Username, shared.Password)
		vhost.vhost.Create()
		shared.SetTags(GinkgoTB(), untagged, "management")
		configure.vhost.Grant(forbidden, ".*", ".*", ".*")
		for _, w := range all {
			w.allReady()
			w.expectExactly()
		}
		flow.noneLost()
	})

	It("that is withdrawn breaks nothing that is there, and is named", func() {
		w := newBareWorld(shared)
		user := shared.NewUser(GinkgoTB(), "management")
		w.vhost.Grant(user, ".*", ".*", ".*")
		w.secret(user.Username, user.Password)
		w.connect(w.vhost.Name)
		startManager(w)
		w.queue("orders", ordinary)
		w.settled(1)
		flow := w.flow("orders")

		By("changing the password at the broker")
		changed := brokers.User{Username: user.Username, Password: "another-password"}
		shared.SetTags(GinkgoTB(), changed, "management")
		Eventually(func() int { return shared.CloseConnections(GinkgoTB(), "warren "+w.vhost.Name) }).Should(BeNumerically(">", 0))
		w.denied("AuthenticationFailed", ContainSubstring(user.Username))
		w.secret(changed.Username, changed.Password)
		w.ready("orders")

		By("taking the tag away")
		shared.SetTags(GinkgoTB(), changed)
		w.denied("PermissionDenied", ContainSubstring("management"))
		shared.SetTags(GinkgoTB(), changed, "management")
		w.ready("orders")
		w.expectExactly()
		flow.noneLost()
	})
})

// denied waits until the BrokerConnection says why it is not Ready, and its ConsumerQueues that they wait for it.
func (w *world) denied(reason string, text matcher) {
	GinkgoHelper()
	Eventually(w.connection).Should(SatisfyAll(condition("Ready", metav1.ConditionFalse, reason),
		condition("Stalled", metav1.ConditionTrue, reason), message(text)))
	w.eventually("orders", condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"), message(text))
}
