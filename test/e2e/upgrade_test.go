package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

// upgrades are specs on the old broker with the objects to recreate on the new one.
var upgrades = map[string]struct{ spec, recreate string }{
	"plain": {`{}`, `queue "plain.dlq" must be recreated: x-delivery-limit is not set, should be -1`},
	"rejected": {
		`{retry: {strategy: Reject}}`, `exchange "rejected.dlx" must be recreated: type is fanout, should be headers`,
	},
	"parked": {
		`{retry: {strategy: Reject}, deadLetter: {policy: Disabled}}`,
		`queue "parked" must be recreated: x-delivery-limit is not set, should be -1`,
	},
	"requeued": {
		`{retry: {strategy: Requeue}}`, `queue "requeued.dlq" must be recreated: x-delivery-limit is not set, should be -1`,
	},
}

// The oldest broker is the one before the upgrade. The operator's objects there are exported, imported at the
// newest, and the connection is changed to it.
var _ = Describe("A broker that is upgraded", Extended, Ordered, ContinueOnFailure, func() {
	var (
		w      *world
		after  *brokers.VHost
		before brokers.Definitions
	)

	BeforeAll(func() {
		old, upgraded := matrix[len(matrix)-1], newest
		Expect(versionOf(old).Major).To(Equal(3))
		w = newWorld(old)
		for name, upgrade := range upgrades {
			w.Queue(name, upgrade.spec)
			w.Ready(name)
		}
		definitions := w.VHost.Export()
		w.Connect(v1alpha1.BrokerConnectionSpec{Suspend: true})
		w.EventuallyConnection(Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		after = w.VHost.At(upgraded)
		after.Import(definitions)
		before = after.Definitions()
		w.Broker = upgraded
		w.Secret(upgraded.Username, upgraded.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.BrokerVersion", upgraded.Version))
	})

	for name, upgrade := range upgrades {
		It("keeps objects Ready that match the old version, and reports the ones to recreate: "+name, func() {
			showLog(w.Namespace)
			cq := w.Eventually(name, Condition("Ready", metav1.ConditionTrue, "InSync"), NoCondition("Stalled"), NoCondition("Reconciling"),
				Condition("Drifted", metav1.ConditionFalse, "InSync"), Condition("RecreationRequired", metav1.ConditionTrue, "BrokerUpgraded"))
			Expect(kstatusOf(cq)).To(Equal(status.CurrentStatus))
			message := recreationMessage(cq)
			Expect(message).To(ContainSubstring(upgrade.recreate))
			Expect(message).To(ContainSubstring("These objects match the spec for an older RabbitMQ and still work. Recreate them when convenient"))
			Expect(message).To(ContainSubstring("more than 20 times"))
			Expect(after.Definitions()).To(Equal(before))
		})
	}

	It("makes each Ready without advisories after its queues were recreated", func() {
		showLog(w.Namespace)
		for _, queue := range before.Queues {
			after.DeleteQueue(queue.Name)
		}
		after.DeleteExchange("rejected.dlx")
		for name := range upgrades {
			w.Ready(name)
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
