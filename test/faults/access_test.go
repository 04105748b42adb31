package faults

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A missing permission", func() {
	It("is named, and waiting resources continue when it is granted", func() {
		password, vhost, tag := newBareWorld(shared), newBareWorld(shared), newBareWorld(shared)
		configure := newBareWorld(shared)
		startManager(password, vhost, tag, configure)

		password.Secret(shared.Username, "wrong-password")
		password.Connect(v1alpha1.BrokerConnectionSpec{})
		vhost.VHost.Delete()
		vhost.Secret(shared.Username, shared.Password)
		vhost.Connect(v1alpha1.BrokerConnectionSpec{})
		untagged := shared.NewUser(GinkgoTB())
		tag.VHost.Grant(untagged, ".*", ".*", ".*")
		tag.Secret(untagged.Username, untagged.Password)
		tag.Connect(v1alpha1.BrokerConnectionSpec{})
		forbidden := shared.NewUser(GinkgoTB(), "management")
		configure.VHost.Grant(forbidden, `^steady`, ".*", ".*")
		configure.Secret(forbidden.Username, forbidden.Password)
		configure.Connect(v1alpha1.BrokerConnectionSpec{})

		all := []*world{password, vhost, tag, configure}
		for _, w := range all {
			w.Queue("steady", ordinary)
			w.Queue("orders", ordinary)
		}
		password.denied("AuthenticationFailed", ContainSubstring(`user "guest"`))
		vhost.denied("VHostNotFound", ContainSubstring(vhost.VHost.Name))
		tag.denied("PermissionDenied", ContainSubstring("management"))
		configure.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "PermissionDenied"),
			Condition("Stalled", metav1.ConditionTrue, "PermissionDenied"),
			Message(SatisfyAll(ContainSubstring("configure"), ContainSubstring(`queue "orders"`))))
		configure.Ready("steady")
		flow := configure.flow("steady")

		password.Secret(shared.Username, shared.Password)
		vhost.VHost.Create()
		shared.SetTags(GinkgoTB(), untagged, "management")
		configure.VHost.Grant(forbidden, ".*", ".*", ".*")
		for _, w := range all {
			w.AllReady(2)
			w.ExpectExactly()
		}
		flow.noneLost()
	})

	It("that was revoked is named, and existing objects stay", Extended, func() {
		w := newBareWorld(shared)
		user := shared.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		startManager(w)
		w.Queue("orders", ordinary)
		w.settled(1)
		flow := w.flow("orders")

		By("changing the password at the broker")
		changed := brokers.User{Username: user.Username, Password: "another-password"}
		shared.SetTags(GinkgoTB(), changed, "management")
		Eventually(func() int { return shared.CloseConnections(GinkgoTB(), "warren "+w.VHost.Name) }).Should(BeNumerically(">", 0))
		w.denied("AuthenticationFailed", ContainSubstring(user.Username))
		w.Secret(changed.Username, changed.Password)
		w.Ready("orders")

		By("removing the tag")
		shared.SetTags(GinkgoTB(), changed)
		w.denied("PermissionDenied", ContainSubstring("management"))
		shared.SetTags(GinkgoTB(), changed, "management")
		w.Ready("orders")
		w.ExpectExactly()
		flow.noneLost()
	})
})

// denied waits until the BrokerConnection reports why it is not Ready, and its ConsumerQueues wait for it.
func (w *world) denied(reason string, text matcher) {
	GinkgoHelper()
	Eventually(w.Connection).Should(SatisfyAll(Condition("Ready", metav1.ConditionFalse, reason),
		Condition("Stalled", metav1.ConditionTrue, reason), Message(text)))
	w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"), Message(ContainSubstring(reason)))
}
