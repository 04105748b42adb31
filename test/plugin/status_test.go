package plugin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/consumer/contract"
	. "github.com/warren-mq/warren/test/testenv"
)

const ordersYAML = `
apiVersion: messaging.warren.dev/v1alpha1
kind: ConsumerQueue
metadata:
  name: orders
spec:
`

var _ = Describe("kubectl warren", func() {
	It("shows a ConsumerQueue that is in sync", Extended, func() {
		w := newWorld()
		w.queue("orders", `{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]}`)
		Expect(w.warren("plan", "orders")).To(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", ContainSubstring("9 unchanged.")), HaveField("ErrOut", BeEmpty())))
		Expect(w.warren("diff", "orders")).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", ContainSubstring("are in sync"))))
		Expect(w.warren("tree", "orders")).To(SatisfyAll(
			HaveField("Code", 0),
			HaveField("Out", MatchRegexp(`ConsumerQueue orders +Ready True, InSync`)),
			HaveField("Out", MatchRegexp(`Binding shop -> orders "order.placed" +Source +InSync`)),
			HaveField("Out", MatchRegexp(`Queue orders.dlq +DeadLetter +InSync`)),
		))
		Expect(w.warren("status")).To(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", MatchRegexp(`orders +orders +True +InSync +False +False +9/9`))))
		Expect(w.warren("status", "orders", "-o", "json").Out).To(ContainSubstring(`"queueName": "orders"`))
		Expect(w.warren("status", "-A", "-o", "name").Out).To(ContainSubstring("consumerqueue.messaging.warren.dev/orders\n"))
	})

	It("plans the changes of an edited file", func() {
		w := newWorld()
		w.queue("orders", `{retry: {delayTiers: [{delay: 30s}]}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [a]}]}`)
		changed := file("changed.yaml", ordersYAML+
			"  retry: {delayTiers: [{delay: 1m}]}\n  bindings: [{exchange: {name: shop, type: topic}, routingKeys: [b]}]\n")
		Expect(w.warren("plan", "-f", changed)).To(SatisfyAll(
			HaveField("Code", 2),
			HaveField("Out", MatchRegexp(`bind +Binding +shop -> orders +routing key "b"`)),
			HaveField("Out", MatchRegexp(`unbind +Binding +shop -> orders +routing key "a"`)),
			HaveField("Out", MatchRegexp(`declare +Queue +orders.retry.1m`)),
			HaveField("Out", MatchRegexp(`delete when empty +Queue +orders.retry.30s`)),
			HaveField("Out", ContainSubstring("2 to declare or bind, 2 to remove, 5 unchanged.")),
		))
		kube.Kubectl("apply", "--server-side", "--force-conflicts", "--namespace="+w.Namespace, "-f", changed)
		w.Ready("orders")
		w.ExpectExactly()
		w.eventuallyWarren(HaveField("Code", 0), "plan", "-f", changed)
	})

	It("approves a recreation with a field manager whose fields Flux does not revert", func() {
		w := newWorld()
		w.queue("orders", `{recreatePolicy: Migrate}`)
		w.Queue("orders", `{recreatePolicy: Migrate, queue: {messageTTL: 5m}}`)
		w.Eventually("orders", Condition("RecreationRequired", metav1.ConditionTrue, "ApprovalNeeded"))
		approved := w.eventuallyWarren(HaveField("Code", 0), "approve", "orders")
		Expect(approved.Out).NotTo(ContainSubstring("has not begun"))
		Expect(w.Get("orders").ManagedFields).To(ContainElement(SatisfyAll(
			HaveField("Manager", Not(HavePrefix("kubectl"))),
			HaveField("FieldsV1.Raw", ContainSubstring("approve-recreation")))))
		w.Eventually("orders", Condition("RecreationRequired", metav1.ConditionFalse, "InSync"))
	})

	It("approves a recreation, and prints that the consumers pause by themselves", Extended, func() {
		w := newWorld()
		migrated := `{contract: {configMap: orders-contract}, recreatePolicy: Migrate, queue: {messageTTL: 5m}}`
		w.queue("orders", migrated)
		connection, err := w.VHost.Connect("test")
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = connection.Close() }()
		channel, err := connection.Channel()
		Expect(err).NotTo(HaveOccurred())
		_, err = channel.Consume("orders", "", false, false, false, false, amqp.Table{contract.ArgConfigMap: w.Namespace + "/orders-contract"})
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.VHost.Consumers).WithArguments("orders").Should(HaveLen(1))
		w.Queue("orders", strings.Replace(migrated, "5m", "6m", 1))
		w.Eventually("orders", Condition("RecreationRequired", metav1.ConditionTrue, "ApprovalNeeded"))
		approved := w.eventuallyWarren(HaveField("Code", 0), "approve", "orders")
		Expect(approved.Out).To(SatisfyAll(
			ContainSubstring(`The consumers of queue "orders" pause by themselves`), Not(ContainSubstring("kubectl"))))
	})

	It("reports that a queue must be recreated, before and after the file is applied", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		changed := file("changed.yaml", ordersYAML+"  queue: {messageTTL: 5m}\n")
		Expect(w.warren("plan", "-f", changed)).To(SatisfyAll(
			HaveField("Code", 2), HaveField("Out", MatchRegexp(`recreate +Queue +orders +x-message-ttl: not set, should be 300000`))))
		kube.Kubectl("apply", "--server-side", "--force-conflicts", "--namespace="+w.Namespace, "-f", changed)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(w.warren("diff", "orders")).To(SatisfyAll(
			HaveField("Code", 2), HaveField("Out", MatchRegexp(`Queue +orders +arguments.x-message-ttl +300000 +not set +Recreate`))))
		Expect(w.warren("plan", "orders")).To(SatisfyAll(
			HaveField("Code", 2), HaveField("Out", MatchRegexp(`recreate +Queue +orders +x-message-ttl: not set, should be 300000`))))

		found := struct {
			Changes []struct{ Path, Desired, Effect string }
		}{}
		Expect(json.Unmarshal([]byte(w.warren("diff", "orders", "-o", "json").Out), &found)).To(Succeed())
		Expect(found.Changes).To(ConsistOf(SatisfyAll(
			HaveField("Path", "arguments.x-message-ttl"), HaveField("Desired", "300000"), HaveField("Effect", "Recreate"))))
	})

	It("plans a new ConsumerQueue for the broker of its BrokerConnection", Extended, func() {
		w := newWorld()
		Eventually(w.Connection).Should(Condition("Ready", metav1.ConditionTrue, "Connected"))
		planned := w.warren("plan", "-f", file("orders.yaml", ordersYAML+"  deadLetter: {policy: Disabled}\n"))
		Expect(planned).To(SatisfyAll(HaveField("Code", 2), HaveField("Out", MatchRegexp(`declare +Queue +orders +x-delivery-limit=-1`))))
		Expect(w.warren("plan", "-f", file("other.yaml", ordersYAML+"  connectionRef: {name: elsewhere}\n"))).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring(`BrokerConnection "elsewhere"`))))
	})

	It("prints changes while it watches", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		watching := w.command("status", "--watch")
		pipe, err := watching.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(watching.Start()).To(Succeed())
		lines := bufio.NewScanner(pipe)
		Expect(lines.Scan()).To(BeTrue())
		Expect(lines.Text()).To(HavePrefix("NAME"))
		Expect(lines.Scan()).To(BeTrue())
		Expect(lines.Text()).To(HavePrefix("orders"))
		w.Queue("payments", `{}`)
		for lines.Scan() {
			if fields := fmt.Sprint(lines.Text()); len(fields) > 0 && fields[:4] == "paym" {
				break
			}
		}
		Expect(lines.Text()).To(HavePrefix("payments"))
		Expect(watching.Process.Signal(interrupt)).To(Succeed())
		for lines.Scan() { // until the command ends
		}
		Expect(watching.Wait()).To(Succeed(), "Ctrl-C is no error")
	})

	It("works for users who may only read", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		for _, role := range []string{"brokerconnection", "consumerqueue", "redrive"} {
			kube.Kubectl("create", "rolebinding", role, "--namespace="+w.Namespace, "--clusterrole="+role+"-viewer-role", "--user=viewer")
		}
		Eventually(func() int { return w.warren("status", "--as=viewer").Code }).Should(Equal(0))
		for _, verb := range []string{"plan", "diff", "tree", "status"} {
			w.eventuallyWarren(HaveField("Code", 0), verb, "orders", "--as=viewer")
		}
		changed := file("changed.yaml", ordersYAML+"  queue: {messageTTL: 5m}\n")
		w.eventuallyWarren(HaveField("Code", 2), "plan", "-f", changed, "--as=viewer")
		Expect(w.warren("status", "-A", "--as=viewer")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("-A needs a cluster role"))))
		Expect(w.warren("dlq", "redrive", "orders", "--yes", "--as=viewer")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring(`cannot create resource "redrives"`)),
			HaveField("ErrOut", ContainSubstring("Moving dead letters, and approving or aborting a recreation, need the role edit"))))
	})

	It("lists the missing objects", Extended, func() {
		w := newWorld()
		Expect(w.warren("tree", "none")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring(`"none" not found`)),
			HaveField("ErrOut", ContainSubstring("kubectl warren status -A` lists"))))
		Expect(w.warren("status")).To(SatisfyAll(
			HaveField("Code", 0), HaveField("ErrOut", ContainSubstring("There is no ConsumerQueue in namespace"))))
		Expect(w.warren("__complete", "tree", "").Out).NotTo(ContainSubstring("orders"))
		w.queue("orders", `{}`)
		Expect(w.warren("__complete", "tree", "").Out).To(HavePrefix("orders\n"))
	})
})
