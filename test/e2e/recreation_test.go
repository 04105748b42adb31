package e2e

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// recreated is a topology with a TTL of its main queue, which has to be recreated for another one.
const recreated = `
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]
retry: {delayTiers: [{delay: 10s}]}
queue: {messageTTL: 1h}
recreatePolicy: `

// edited is the same topology with another TTL.
func edited(policy string) string { return strings.Replace(recreated, "1h", "2h", 1) + policy }

func haveLastResult(result v1alpha1.RecreationOutcome) OmegaMatcher {
	return WithTransform(func(cq *v1alpha1.ConsumerQueue) v1alpha1.RecreationOutcome {
		if cq.Status.Recreation == nil || cq.Status.Recreation.LastResult == nil {
			return ""
		}
		return cq.Status.Recreation.LastResult.Result
	}, Equal(result))
}

var _ = Describe("A queue is recreated", func() {
	It("with WhenEmpty as soon as its consumers are gone, and is Ready until then", func() {
		w := newWorld(newest)
		w.Queue("orders", recreated+"WhenEmpty")
		w.Ready("orders")
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Ack })
		w.VHost.Send("shop", "order.placed", amqp.Publishing{MessageId: "first"})
		Eventually(consumer.Consumed).WithTimeout(deadline.For(5 * time.Second)).Should(HaveLen(1))

		w.Queue("orders", edited("WhenEmpty"))
		waiting := w.Eventually("orders", Condition("RecreationRequired", metav1.ConditionTrue, "WaitingForConsumers"),
			Condition("Ready", metav1.ConditionTrue, "RecreationPending"))
		Expect(kstatusOf(waiting)).To(Equal(status.CurrentStatus), "as Flux and Argo CD ask for it")

		consumer.Stop()
		w.Eventually("orders", haveLastResult(v1alpha1.RecreationCompleted))
		w.Ready("orders")
		w.ExpectExactly()
		w.EventuallyReasons("orders", ContainElements("RecreationStarted", "QueueSwapped", "RecreationFinished"))
	})

	It("with Migrate after an approval, and publishers through its exchange lose nothing", func() {
		w := newWorld(newest)
		w.Queue("orders", recreated+"Migrate")
		w.Ready("orders")
		publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			Targets: []traffic.Target{{Exchange: "shop", RoutingKey: "order.placed"}}, Every: 5 * time.Millisecond,
		})
		w.EventuallyMessages("orders", BeNumerically(">", 100))

		w.Queue("orders", edited("Migrate"))
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ApprovalNeeded"))
		before := cq.DeepCopy()
		metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.ApproveRecreationAnnotation, cq.Status.PlanHash)
		Expect(w.Kube.Patch(ctx(), cq, client.MergeFrom(before))).To(Succeed())

		w.Eventually("orders", haveLastResult(v1alpha1.RecreationCompleted))
		w.Ready("orders")
		publisher.Stop()
		Expect(publisher.Counts().Nacks + publisher.Counts().Returned).To(BeZero())
		report := traffic.Account(GinkgoTB(), w.VHost, traffic.Accounting{Publishers: []*traffic.Publisher{publisher}})
		report.NoneLost(GinkgoTB())
		w.ExpectExactly()
	})
})
