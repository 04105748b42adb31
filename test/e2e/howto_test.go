package e2e

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// declareByHand declares the initial topology of docs/how-to/adopt-what-exists.md, with a message in each queue.
func declareByHand(w *world) {
	GinkgoHelper()
	w.VHost.DeclareExchange("shop", "topic", nil)
	w.VHost.DeclareExchange("orders.dlx", "fanout", nil)
	w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "orders.dlx"})
	w.VHost.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": "quorum"})
	w.VHost.Bind("shop", "orders", "order.placed", nil)
	w.VHost.Bind("orders.dlx", "orders.dlq", "", nil)
	w.VHost.Publish("shop", "order.placed", "waits")
	w.VHost.Publish("orders.dlx", "", "dead")
}

var _ = Describe("The how-to", Extended, func() {
	It("on adoption adopts queues with their messages and declares only missing objects", func() {
		w := newWorld(newest)
		declareByHand(w)
		before := w.holds()
		page := w.follow("adopt-what-exists.md", "Step by step")

		By("reporting differences")
		Expect(page.step()).To(SatisfyAll(
			ContainSubstring("Recreate\torders\tx-dead-letter-strategy is not set, should be at-least-once"),
			ContainSubstring("Recreate\torders\tx-overflow is not set, should be reject-publish"),
			ContainSubstring("Recreate\torders.dlq\tx-delivery-limit is not set, should be -1"),
			ContainSubstring("Declare\torders.retry.30s\tqueue \"orders.retry.30s\" is missing")))
		Expect(w.holds()).To(equalState(before))

		By("reporting missing objects after the spec was adjusted")
		Expect(page.step()).To(SatisfyAll(ContainSubstring("Declare\torders.retry.30s"), Not(ContainSubstring("Recreate"))))
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "Drifted"), HaveField("Status.Changes", HaveLen(1)))
		Expect(w.holds()).To(equalState(before))

		By("declaring missing objects")
		Expect(page.step()).To(SatisfyAll(ContainSubstring("Exchange orders.dlx: Adopted\n"), ContainSubstring("Queue orders: Adopted\n"),
			ContainSubstring("Queue orders.retry.30s: Declared\n"), ContainSubstring("Queue orders.dlq: Adopted\n")))
		page.end()
		after := w.holds()
		Expect(after.Queues).To(HaveLen(len(before.Queues) + 1))
		for _, queue := range before.Queues {
			Expect(after.Queues).To(ContainElement(queue), "with the arguments it had")
		}
		w.EventuallyMessages("orders", Equal(1))
		w.EventuallyMessages("orders.dlq", Equal(1))
		Expect(w.Ready("orders").Status.Topology).To(HaveEach(HaveField("State", v1alpha1.StateInSync)))
	})

	It("on a TTL recreates the queue with three commands", func() {
		w := newWorld(newest)
		kube.Kubectl("create", "deployment", "orders-consumer", "--image=none", "--namespace="+w.Namespace)
		page := w.follow("change-a-ttl.md", "Consumers can pause")
		page.given("orders", oneHour)
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Ack })
		w.VHost.Publish("shop", "order.placed", "first")
		Eventually(consumer.Consumed).Should(HaveLen(1))
		page.step()
		w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "RecreationPending"))
		consumer.Stop()
		page.step()
		Expect(w.argument("orders", "x-message-ttl")).To(BeEquivalentTo(600000))
		Expect(w.replicas("orders-consumer")).To(BeZero())
		page.step()
		Expect(w.replicas("orders-consumer")).To(BeEquivalentTo(2))
		page.end()
		w.Ready("orders")
	})

	It("on a TTL recreates a queue without consumers with the same commands", func() {
		w := newWorld(newest)
		kube.Kubectl("create", "deployment", "orders-consumer", "--image=none", "--namespace="+w.Namespace)
		page := w.follow("change-a-ttl.md", "Consumers can pause")
		page.given("orders", oneHour)
		page.step()
		page.step()
		Expect(w.argument("orders", "x-message-ttl")).To(BeEquivalentTo(600000))
		page.step()
		page.end()
		w.Ready("orders")
	})

	It("on a TTL recreates the queue while publishers pause, without losing a message", func() {
		w := newWorld(newest)
		for _, name := range []string{"orders-publisher", "orders-consumer"} {
			kube.Kubectl("create", "deployment", name, "--image=none", "--namespace="+w.Namespace)
		}
		w.Queue("orders", oneHour)
		w.Ready("orders")
		publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			Targets: []traffic.Target{{Exchange: "shop", RoutingKey: "order.placed"}, {Exchange: "orders.dlx"}}, Every: 20 * time.Millisecond,
		})
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Ack })
		Eventually(func() int { return publisher.Counts().Made }).Should(BeNumerically(">", 50))
		page := w.follow("change-a-ttl.md", "Publishers can pause")

		By("not changing the queue when the new TTL comes from Git")
		w.Queue("orders", strings.ReplaceAll(oneHour, "1h", "10m"))
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		page.step()
		Expect(w.replicas("orders-publisher")).To(BeZero())
		publisher.Stop()
		Eventually(w.VHost.Ready).WithArguments("orders").Should(BeZero())

		By("deleting empty queues and retaining the dead letters")
		consumer.Stop()
		page.step()
		w.EventuallyEvents("Retained", ContainElement(HaveField("Note", MatchRegexp(`queue "orders.dlq" holds \d+ messages`))))
		Expect(w.queues()).To(ConsistOf("orders.dlq"))

		page.step()
		Expect(w.argument("orders", "x-message-ttl")).To(BeEquivalentTo(600000))
		page.step()
		Expect(w.replicas("orders-consumer")).To(BeEquivalentTo(2))
		page.end()
		report := traffic.Account(GinkgoTB(), w.VHost, traffic.Accounting{
			Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
		})
		report.NoneLost(GinkgoTB())
	})

	It("on a TTL retains everything if a queue is not empty", func() {
		w := newWorld(newest)
		for _, name := range []string{"orders-publisher", "orders-consumer"} {
			kube.Kubectl("create", "deployment", name, "--image=none", "--namespace="+w.Namespace)
		}
		w.Queue("orders", oneHour)
		w.Ready("orders")
		w.Queue("orders", strings.ReplaceAll(oneHour, "1h", "10m"))
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		w.VHost.Publish("shop", "order.placed", "overlooked")
		before := w.holds()
		page := w.follow("change-a-ttl.md", "Publishers can pause")
		page.step()
		page.step()
		Eventually(func() string {
			return page.run("kubectl get events --field-selector involvedObject.name=orders,reason=Retained") // runs the step before the queue is empty
		}).Should(ContainSubstring(`queue "orders" holds 1 message`))
		Expect(w.holds()).To(equalState(before))
		w.Queue("orders", oneHour)
		w.Ready("orders")
		w.EventuallyMessages("orders", Equal(1))
	})

	It("on a TTL switches to a new queue without a pause, without losing a message", func() {
		w := newWorld(newest)
		page := w.follow("change-a-ttl.md", "No consumer can pause")
		page.given("orders", oneHour)
		publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			Targets: []traffic.Target{{Exchange: "shop", RoutingKey: "order.placed"}}, Every: 20 * time.Millisecond,
		})
		ack := func(traffic.Delivery) traffic.Action { return traffic.Ack }
		former := traffic.Consume(GinkgoTB(), w.VHost, "orders", ack)
		page.step()
		Expect(w.argument("orders.v2", "x-message-ttl")).To(BeEquivalentTo(600000))
		latter := traffic.Consume(GinkgoTB(), w.VHost, "orders.v2", ack)

		page.step()
		Expect(w.holds().Bindings).NotTo(ContainElement(SatisfyAll(HaveField("Source", "shop"), HaveField("Destination", "orders"))))
		Eventually(w.VHost.Ready).WithArguments("orders").Should(BeZero())
		former.Stop()
		Expect(page.step()).To(ContainSubstring("No resources found"), "nothing is retained")
		w.ConsistentlyNoEvents("Retained")
		page.end()
		Expect(w.queues()).To(ConsistOf("orders.v2", "orders.v2.retry.30s", "orders.v2.dlq"))
		made := publisher.Counts().Made
		Eventually(func() int { return publisher.Counts().Made - made }).Should(BeNumerically(">", 50), "traffic goes on")
		report := traffic.Account(GinkgoTB(), w.VHost, traffic.Accounting{
			Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{former, latter},
		})
		report.NoneLost(GinkgoTB())
	})

	It("on a shared dead-letter queue collects all dead letters in one queue, which stays until the last ConsumerQueue is deleted", func() {
		w := newWorld(newest)
		page := w.follow("share-a-dead-letter-queue.md", "Step by step")
		page.step()
		for _, name := range []string{"orders", "invoices"} {
			w.VHost.Publish("", name, "given up")
			traffic.Consume(GinkgoTB(), w.VHost, name, func(traffic.Delivery) traffic.Action { return traffic.Reject })
		}
		Eventually(w.VHost.Ready).WithArguments("shop.dlq").Should(Equal(2))

		By("refusing a ConsumerQueue with other settings")
		Expect(page.step()).To(MatchRegexp(w.Namespace + `/(orders|invoices) has the dead-letter queue "shop.dlq" with other settings`))
		w.Eventually("returns", Condition("Ready", metav1.ConditionFalse, "Conflict"))
		w.Queue("returns", `{deadLetter: {queue: {name: shop.dlq, maxLength: 100000}}}`)
		w.Ready("returns")

		page.step()
		page.end()
		w.EventuallyMessages("shop.dlq", Equal(2))
		w.Ready("invoices")
	})

	It("on redriving counts dead letters, moves some, and then all", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.deadLetters("orders", 12)
		page := w.follow("redrive.md", "Step by step")
		Expect(page.step()).To(ContainSubstring("12 of 12 messages would be moved"))
		w.EventuallyMessages("orders", BeZero())
		w.EventuallyMessages("orders.dlq", Equal(12))
		Expect(page.step()).To(ContainSubstring("5 of 12 messages moved"))
		w.EventuallyMessages("orders", Equal(5))
		Expect(page.step()).To(ContainSubstring("7 of 7 messages moved"))
		page.end()
		w.EventuallyMessages("orders", Equal(12))
		w.EventuallyMessages("orders.dlq", BeZero())
	})

	It("on purging counts dead letters and deletes as many as expected", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.deadLetters("orders", 12)
		w.VHost.Send("", "orders.dlq", numbered(3)...)
		page := w.follow("purge-dead-letters.md", "With kubectl, step by step")
		Expect(page.step()).To(ContainSubstring("12 of 15 messages would be deleted, 3 skipped (NotSelected)"))
		Expect(page.step()).To(ContainSubstring("deleted 12 of 12 messages that match, 3 skipped (NotSelected)"))
		page.end()
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(3))
	})

	It("on definitions.json creates a ConsumerQueue that is in sync and stays Ready", func() {
		w := newWorld(newest)
		page := w.follow("move-from-definitions-json.md", "Step by step")
		page.finds(BuildPlugin())
		w.VHost.Import(json.RawMessage(page.next("json")))
		page.has("definitions.json", []byte(page.next("json")))
		before := w.holds()
		Expect(page.step()).To(SatisfyAll(ContainSubstring("ConsumerQueues for RabbitMQ 4.3: 1\n"), Not(ContainSubstring("Differs"))))
		Expect(page.wrote("orders.yaml")).To(MatchYAML(page.next("yaml")), "what the page shows is what comes out")
		page.step()
		w.Eventually("orders", HaveField("Status.Changes", BeEmpty()))
		page.step()
		page.end()
		w.Eventually("orders", HaveField("Spec.DriftPolicy", v1alpha1.DriftPolicyCorrect))
		w.Ready("orders")
		Expect(w.holds()).To(equalState(before))
		w.VHost.DeleteQueue("orders.wait")
		Eventually(w.holds).Should(equalState(before), "what goes missing is declared as it was in the file")
	})

	It("on credentials changes the user, so that the old one can be deleted", func() {
		w := newBareWorld(newest)
		former, latter := w.Broker.NewUser(GinkgoTB(), "management", "policymaker"), w.Broker.NewUser(GinkgoTB(), "management", "policymaker")
		for _, user := range []brokers.User{former, latter} {
			w.VHost.Grant(user, ".*", ".*", ".*")
		}
		w.Secret(former.Username, former.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Queue("orders", `{}`)
		w.Ready("orders")
		page := w.follow("rotate-credentials.md", "Step by step", "NEW_USER="+latter.Username, "NEW_PASSWORD="+latter.Password)
		page.step()
		page.end()
		w.VHost.Grant(former, "^$", "^$", "^$")
		w.VHost.DeleteQueue("orders.retry.5m")
		Eventually(w.queues).Should(ContainElement("orders.retry.5m"), "the new user declares")
		w.Ready("orders")
	})

	It("on tenants creates a user with sufficient permissions in one vhost, and a team that may only write ConsumerQueues", func() {
		kube.Kubectl("apply", "--server-side", "--force-conflicts", "-k", filepath.Join(Checkout, "config", "default"))
		w := newBareWorld(newest)
		user := w.Broker.NewUser(GinkgoTB(), "management", "policymaker")
		w.VHost.Grant(user, ".*", ".*", ".*")
		page := w.follow("tenants-and-permissions.md", "Step by step", "RABBITMQ_USER="+user.Username, "PASSWORD="+user.Password,
			"AMQP_URI="+w.Broker.AMQPURI, "MANAGEMENT_URI="+w.Broker.ManagementURI)
		page.replace("vhost: team-a", "vhost: "+w.VHost.Name)
		page.step()
		page.step()
		Expect(page.step()).To(HaveSuffix("yes\n"))
		page.end()
		_, err := kube.TryKubectl("auth", "can-i", "create", "brokerconnections.messaging.warren.dev", "-n", w.Namespace, "--as=anyone", "--as-group=team-a")
		Expect(err).To(HaveOccurred())
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.Delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(BeEmpty())
	})

	It("on TLS connects with a CA and a client certificate, and shows the messages of common errors", func() {
		secured, certificates := brokers.AllTLS(GinkgoTB())
		w := newBareWorld(secured[0])
		w.Secret(w.Broker.Username, w.Broker.Password)
		page := w.follow("tls.md", "Step by step")
		page.has("ca.crt", certificates.CA)
		page.has("tls.crt", certificates.ClientCert)
		page.has("tls.key", certificates.ClientKey)
		page.replace("amqps://rabbitmq.example.com:5671", w.Broker.AMQPURI)
		page.replace("https://rabbitmq.example.com:15671", w.Broker.ManagementURI)
		page.replace("  tls:\n", "  vhost: "+w.VHost.Name+"\n  tls:\n")
		page.step()
		page.step()
		ca, client := &v1alpha1.LocalObjectReference{Name: "rabbitmq-ca"}, &v1alpha1.LocalObjectReference{Name: "warren-client"}
		for _, wrong := range []struct {
			spec    v1alpha1.BrokerConnectionSpec
			message string
		}{
			{v1alpha1.BrokerConnectionSpec{}, "certificate signed by unknown authority"},
			{v1alpha1.BrokerConnectionSpec{TLS: &v1alpha1.TLSSpec{CASecretRef: ca, ClientSecretRef: client, ServerName: "other"}}, "certificate is valid for"},
			{
				v1alpha1.BrokerConnectionSpec{
					AMQPURI: strings.Replace(newest.AMQPURI, "amqp:", "amqps:", 1), TLS: &v1alpha1.TLSSpec{CASecretRef: ca, ClientSecretRef: client},
				}, "first record does not look like a TLS handshake",
			},
		} {
			w.Connect(wrong.spec)
			w.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"), Message(ContainSubstring(wrong.message)))
		}
		Expect(kube.Delete(ctx(), w.Connection())).To(Succeed())
		page.step()
		page.end()
	})

	It("on the messaging topology operator deletes its resources despite finalizers and webhooks", func() {
		w := newWorld(newest)
		otherOperator()
		for _, resource := range []string{"Queue orders", "Queue orders-dlq", "Exchange orders-dlx", "Binding orders"} {
			kind, name, _ := strings.Cut(resource, " ")
			made := &unstructured.Unstructured{}
			made.SetAPIVersion("rabbitmq.com/v1beta1")
			made.SetKind(kind)
			made.SetNamespace(w.Namespace)
			made.SetName(name)
			made.SetFinalizers([]string{"deletion.finalizers." + strings.ToLower(kind) + "s.rabbitmq.com"})
			Eventually(func() error { return kube.Create(ctx(), made) }).Should(Succeed(), "the kind is served")
		}
		const left = "queues.rabbitmq.com,exchanges.rabbitmq.com,bindings.rabbitmq.com"
		guard("Fail")
		Eventually(func() error {
			value := strconv.FormatInt(time.Now().UnixNano(), 10)
			_, err := kube.TryKubectl("annotate", "--overwrite", "-n", w.Namespace, "queues.rabbitmq.com/orders", "a="+value)
			return err
		}).Should(MatchError(ContainSubstring("failed calling webhook")))

		page := w.follow("move-from-the-messaging-topology-operator.md", "Step by step")
		page.step()
		page.step()
		Expect(kube.Kubectl("get", "-n", w.Namespace, left)).To(ContainSubstring("No resources found"))
		page.step()
		page.end()
		guarding := &admissionv1.ValidatingWebhookConfiguration{}
		Expect(kube.Get(ctx(), client.ObjectKey{Name: "topology.rabbitmq.com"}, guarding)).To(Succeed())
		Expect(guarding.Webhooks[0].FailurePolicy).To(HaveValue(Equal(admissionv1.Fail)))
	})
})

var _ = Describe("The resources in the documentation", func() {
	It("are accepted by the API server with all validation rules", func() {
		var resources []string
		Expect(filepath.WalkDir(filepath.Join(Checkout, "docs"), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".md") {
				return err
			}
			page, err := os.ReadFile(path)
			for _, one := range blocksOf(string(page)) {
				if one.language == "yaml" && strings.Contains(one.text, "apiVersion: messaging.warren.dev/") {
					resources = append(resources, one.text)
				}
			}
			return err
		})).To(Succeed())
		Expect(len(resources)).To(BeNumerically(">", 10))
		file := filepath.Join(GinkgoT().TempDir(), "resources.yaml")
		Expect(os.WriteFile(file, []byte(strings.Join(resources, "\n---\n")), 0o600)).To(Succeed())
		kube.Kubectl("create", "--dry-run=server", "--validate=strict", "-f", file)
	})
})

// oneHour is the initial spec in docs/how-to/change-a-ttl.md.
const oneHour = `
queue: {messageTTL: 1h}
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]
retry: {delayTiers: [{delay: 30s}]}`

// argument returns an argument of a queue at the broker.
func (w *world) argument(queue, name string) any {
	GinkgoHelper()
	for _, found := range w.VHost.Definitions().Queues {
		if found.Name == queue {
			return found.Arguments[name]
		}
	}
	Fail("queue " + queue + " does not exist")
	return nil
}

// replicas returns spec.replicas of a Deployment.
func (w *world) replicas(deployment string) int32 {
	GinkgoHelper()
	found := &appsv1.Deployment{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: deployment}, found)).To(Succeed())
	return *found.Spec.Replicas
}

// otherOperator creates the CRDs and the Deployment of the messaging topology operator.
func otherOperator() {
	GinkgoHelper()
	for _, kind := range []string{"Queue", "Exchange", "Binding"} {
		plural := strings.ToLower(kind) + "s"
		preserve := true
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".rabbitmq.com"}}
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "rabbitmq.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		}
		_, err := envtest.InstallCRDs(kube.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}})
		Expect(err).NotTo(HaveOccurred())
	}
	kube.Kubectl("create", "namespace", "rabbitmq-system")
	kube.Kubectl("create", "deployment", "messaging-topology-operator", "--image=none", "--namespace=rabbitmq-system")
}

// guard installs a webhook without a server, so that changes of the other operator's resources are refused.
func guard(policy admissionv1.FailurePolicyType) {
	GinkgoHelper()
	none := admissionv1.SideEffectClassNone
	webhook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "topology.rabbitmq.com"}}
	webhook.Webhooks = []admissionv1.ValidatingWebhook{{
		Name: "vqueue.kb.io", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, FailurePolicy: &policy,
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "rabbitmq-system", Name: "webhook-service"}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups: []string{"rabbitmq.com"}, APIVersions: []string{"v1beta1"}, Resources: []string{"queues", "exchanges", "bindings"},
			},
		}},
	}}
	Expect(kube.Create(ctx(), webhook)).To(Succeed())
	DeferCleanup(func() { Expect(kube.Delete(context.Background(), webhook)).To(Succeed()) })
}
