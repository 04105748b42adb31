package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var _ = Describe("A broker that is upgraded", func() {
	// The oldest broker stands for the one before the upgrade: what the operator made there is exported and imported at the
	// newest, and the connection leads there from then on.
	It("leaves what is as the old version needed it Ready, and says what to recreate", func() {
		old, upgraded := matrix[len(matrix)-1], matrix[0]
		Expect(versionOf(old).Major).To(Equal(3))
		w := newWorld(old)
		specs := map[string]string{
			"plain":    `{}`,
			"rejected": `{retry: {strategy: Reject}}`,
			"parked":   `{retry: {strategy: Reject}, deadLetter: {policy: Disabled}}`,
			"requeued": `{retry: {strategy: Requeue}}`,
		}
		for name, spec := range specs {
			w.queue(name, spec)
			w.ready(name)
		}
		definitions := w.vhost.Export()
		w.disconnect()
		after := w.vhost.At(upgraded)
		after.Import(definitions)
		before := after.Definitions()
		w.broker = upgraded
		w.secret(upgraded.Username, upgraded.Password)
		w.connection(v1alpha1.BrokerConnectionSpec{Suspend: new(bool)})
		w.eventuallyConnection(condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.BrokerVersion", upgraded.Version))

		remedy := "This is how this spec is declared on an older RabbitMQ: recreate these objects when it suits you"
		for name, what := range map[string]string{
			"plain":    `queue "plain.dlq" must be recreated: x-delivery-limit is not set, should be -1`,
			"rejected": `exchange "rejected.dlx" must be recreated: type is fanout, should be headers`,
			"parked":   `queue "parked" must be recreated: x-delivery-limit is not set, should be -1`,
			"requeued": `queue "requeued.dlq" must be recreated: x-delivery-limit is not set, should be -1`,
		} {
			cq := w.eventually(name, condition("Ready", metav1.ConditionTrue, "InSync"), noCondition("Stalled"), noCondition("Reconciling"),
				condition("Drifted", metav1.ConditionFalse, "InSync"), condition("RecreationRequired", metav1.ConditionTrue, "BrokerUpgraded"))
			Expect(kstatusOf(cq)).To(Equal(status.CurrentStatus))
			message := recreationMessage(cq)
			Expect(message).To(ContainSubstring(what))
			Expect(message).To(ContainSubstring(remedy))
			Expect(message).To(ContainSubstring("more than 20 times"))
		}
		Expect(after.Definitions()).To(Equal(before))

		By("the remedy being one: each is Ready without reserve when its queues have been recreated")
		for _, queue := range before.Queues {
			after.DeleteQueue(queue.Name)
		}
		after.DeleteExchange("rejected.dlx")
		for name := range specs {
			w.ready(name)
		}
	})
})

func recreationMessage(cq *v1alpha1.ConsumerQueue) string {
	for _, condition := range cq.Status.Conditions {
		if condition.Type == v1alpha1.ConditionRecreationRequired {
			return condition.Message
		}
	}
	return ""
}
