package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

// viewer, editor and admin are the ClusterRoles of config/rbac that are aggregated to the built-in roles view, edit and admin.
const (
	viewer = "deadletterqueue_viewer_role"
	editor = "deadletterqueue_editor_role"
	admin  = "deadletterqueue_admin_role"
)

// deadLetterClient returns a client with a role.
func (w *world) deadLetterClient(role string) *DeadLetterClient {
	GinkgoHelper()
	return w.DeadLetterClient(deadLetterServer, strings.ReplaceAll(role, "_", "-"), role)
}

// letters returns the messages of a response.
func letters(list v1alpha1.DeadLetterList) []v1alpha1.DeadLetter {
	GinkgoHelper()
	found := make([]v1alpha1.DeadLetter, len(list.Items))
	for i, item := range list.Items {
		Expect(json.Unmarshal(item, &found[i])).To(Succeed())
	}
	return found
}

// ids returns the IDs of messages in order.
func ids(list v1alpha1.DeadLetterList) []string {
	GinkgoHelper()
	var found []string
	for _, letter := range letters(list) {
		found = append(found, letter.ID)
	}
	return found
}

// exportEnd is the last line of an export.
func exportEnd(lines []byte) (end v1alpha1.ExportEnd) {
	GinkgoHelper()
	lines = bytes.TrimSpace(lines)
	Expect(json.Unmarshal(lines[bytes.LastIndexByte(lines, '\n')+1:], &end)).To(Succeed())
	return end
}

var _ = Describe("The dead-letter API", func() {
	It("lists messages in pages without changing them", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(50)...)
		reader := w.deadLetterClient(editor)
		first, second := v1alpha1.DeadLetterList{}, v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?limit=30", &first)
		Expect(first.Queue).To(Equal("orders.dlq"))
		Expect(first.Ready).To(BeEquivalentTo(50))
		Expect(first.Partial).To(BeFalse())
		Expect(*first.NextPosition).To(BeEquivalentTo(30))
		for i, letter := range letters(first) {
			Expect(letter.Position).To(BeEquivalentTo(i))
			Expect(letter.Body).To(Equal(fmt.Sprintf(`{"n": %d}`, i)))
			Expect(letter.Reason).To(Equal("Parked"))
			Expect(letter.Headers).To(HaveKeyWithValue("n", BeEquivalentTo(i)))
			Expect(letter.Warnings).To(ConsistOf(v1alpha1.WarningNoOrigin))
		}
		reader.Get("/orders/messages?position=30&limit=30", &second)
		Expect(second.Items).To(HaveLen(20))
		Expect(second.NextPosition).To(BeNil())
		Expect(letters(second)[0].Body).To(Equal(`{"n": 30}`))

		for range 25 { // RabbitMQ deletes messages on the 21st browse if the queue has a delivery limit
			again := v1alpha1.DeadLetterList{}
			reader.Get("/orders/messages?limit=30", &again)
			Expect(ids(again)).To(Equal(ids(first)))
		}
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(50))
		for i, message := range w.take("orders.dlq") {
			Expect(string(message.Body)).To(Equal(fmt.Sprintf(`{"n": %d}`, i)))
		}
	})

	It("finds messages by their content", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.deadLetters("orders", 3)
		w.VHost.Send("", "orders.dlq", numbered(10)...)
		reader := w.deadLetterClient(editor)
		found := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?expression=body.n+%3E%3D+4+%26%26+body.n+%3C+6", &found)
		Expect(found.Items).To(HaveLen(2))
		Expect(letters(found)[0].Position).To(BeEquivalentTo(7))
		byID := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?id="+ids(found)[1], &byID)
		Expect(ids(byID)).To(Equal(ids(found)[1:]))
		rejected := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?reason=Rejected", &rejected)
		Expect(rejected.Items).To(HaveLen(3))
		origin := letters(rejected)[0].Origin
		Expect(origin.Queue).To(Equal("orders"))
		Expect(origin.DiedAt).NotTo(BeNil())
		reader.EventuallyStatus("/orders/messages?expression=body.n", http.StatusOK)
		Expect(string(reader.EventuallyStatus("/orders/messages?expression=nothing", http.StatusBadRequest))).To(ContainSubstring("expression: "))
	})

	It("summarizes messages without their content", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.deadLetters("orders", 5)
		tenant := func(name string) amqp.Publishing {
			return amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: amqp.Table{"tenant": name}, Body: []byte("unspeakable")}
		}
		w.VHost.Send("", "orders.dlq", tenant("acme"), tenant("acme"), tenant("umbrella"))
		reader := w.deadLetterClient(viewer)
		queue := v1alpha1.DeadLetterQueue{}
		reader.Get("/orders?groupBy=tenant", &queue)
		Expect(*queue.Messages).To(BeEquivalentTo(8))
		Expect(*queue.Consumers).To(BeZero())
		Expect(queue.Summary.Examined).To(BeEquivalentTo(8))
		Expect(queue.Summary.Groups).To(HaveLen(3))
		Expect(queue.Summary.Groups[0]).To(SatisfyAll(
			HaveField("Reason", "Rejected"), HaveField("Queue", "orders"), HaveField("Count", BeEquivalentTo(5)), HaveField("Value", BeNil()),
			HaveField("Oldest", Not(BeNil()))))
		Expect(queue.Summary.Groups[1]).To(SatisfyAll(
			HaveField("Reason", "Parked"), HaveField("Count", BeEquivalentTo(2)), HaveField("Value", HaveValue(Equal("acme")))))
		Expect(string(reader.EventuallyStatus("/orders?groupBy=tenant", http.StatusOK))).NotTo(ContainSubstring("unspeakable"))

		list := v1alpha1.DeadLetterQueueList{}
		Eventually(func() *int64 {
			reader.Get("", &list)
			return list.Items[0].Messages
		}).Should(HaveValue(BeEquivalentTo(8)))
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].Name).To(Equal("orders"))
		Expect(list.Items[0].Queue).To(Equal("orders.dlq"))
	})

	It("exports messages unchanged", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		messages := numbered(3000)
		messages[7].Headers["password"] = "secret-7"
		messages[7].Body = []byte{0xff, 0x00}
		w.VHost.Send("", "orders.dlq", messages...)
		reader := w.deadLetterClient(admin)
		lines := bufio.NewScanner(bytes.NewReader(reader.EventuallyStatus("/orders/export", http.StatusOK)))
		for i := range messages {
			Expect(lines.Scan()).To(BeTrue())
			letter := v1alpha1.ExportedDeadLetter{}
			Expect(json.Unmarshal(lines.Bytes(), &letter)).To(Succeed())
			Expect(letter.Position).To(BeEquivalentTo(i))
			Expect(letter.Body).To(Equal(messages[i].Body))
			Expect(letter.Headers["n"]).To(Equal(v1alpha1.TypedValue{Type: "long", Value: float64(i)}))
			if i == 7 {
				Expect(letter.Headers["password"].Value).To(Equal("secret-7"))
			}
		}
		Expect(lines.Scan()).To(BeTrue())
		end := v1alpha1.ExportEnd{}
		Expect(json.Unmarshal(lines.Bytes(), &end)).To(Succeed())
		Expect(end).To(Equal(v1alpha1.ExportEnd{Kind: "ExportEnd", Count: 3000, Ready: 3000}))
		Expect(lines.Scan()).To(BeFalse())
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(3000))
	})

	onEachBroker("refuses to browse if the broker would delete browsed messages", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{deadLetter: {queue: {deliveryLimit: 3}}}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(2)...)
		reader := w.deadLetterClient(admin)
		eventuallyRefused(reader)
	})

	onEachBroker("refuses, like a dry run and a Purge, to browse a message that the first browse would delete, but a Redrive moves it",
		func(broker brokers.Broker) {
			w := newWorld(broker)
			w.Queue("orders", `{queue: {deliveryLimit: Unlimited}, deadLetter: {queue: {deliveryLimit: 20}}}`)
			w.Ready("orders")
			w.VHost.Publish("", "orders", "rejected often")
			w.rejectOften("orders", 21)
			Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(1))

			reader := w.deadLetterClient(admin)
			eventuallyRefused(reader)
			w.Redrive("count", `{consumerQueueRef: {name: orders}, dryRun: true}`)
			w.Redrive("some", `{consumerQueueRef: {name: orders}, selector: {reasons: [Rejected]}}`)
			w.Purge("none", `{consumerQueueRef: {name: orders}, expectedAtMost: 1}`)
			refused := []gomegatypes.GomegaMatcher{
				Condition("Ready", metav1.ConditionFalse, "DeliveryLimited"), Condition("Stalled", metav1.ConditionTrue, "DeliveryLimited"),
				Message(ContainSubstring(`queue "orders.dlq" has a delivery limit`)),
			}
			w.EventuallyRedrive("count", refused...)
			w.EventuallyRedrive("some", refused...)
			w.EventuallyPurge("none", refused...)
			w.EventuallyMessages("orders.dlq", Equal(1))

			w.Redrive("all", `{consumerQueueRef: {name: orders}}`)
			Expect(*w.completed("all").Moved).To(BeEquivalentTo(1))
			w.EventuallyMessages("orders.dlq", BeZero())
			w.rejectOften("orders", 3) // starts again from zero
			Eventually(func() []string { return bodies(w.take("orders.dlq")) }).Should(Equal([]string{"rejected often"}))
		})

	It("returns the same to two clients that browse a hundred times each, and loses no message beside a Redrive", Extended, func() {
		const messages, page = 300, 40
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(messages)...)
		reader := w.deadLetterClient(editor)
		all := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?limit=1000", &all)
		Expect(all.Items).To(HaveLen(messages))
		known := ids(all)
		browses := func(times int, check func(seen []string)) {
			GinkgoHelper()
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					defer GinkgoRecover()
					for range times {
						var body []byte
						Eventually(func() (code int) { // only one browses at a time
							code, body = reader.Request(fmt.Sprintf("/orders/messages?limit=%d", page))
							return code
						}).WithPolling(10 * time.Millisecond).Should(Equal(http.StatusOK))
						found := v1alpha1.DeadLetterList{}
						Expect(json.Unmarshal(body, &found)).To(Succeed())
						check(ids(found))
					}
				})
			}
			both.Wait()
		}
		browses(60, func(seen []string) { Expect(seen).To(Equal(known[:page])) })
		again := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?limit=1000", &again)
		Expect(ids(again)).To(Equal(known), "no order has changed")

		w.Redrive("again", `{consumerQueueRef: {name: orders}, rate: 30, selector: {expression: "headers.n % 2 == 0"}}`)
		w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionUnknown, "Moving"))
		browses(40, func(seen []string) { Expect(known).To(ContainElements(seen)) })
		Expect(*w.completed("again").Moved).To(BeEquivalentTo(messages / 2))
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(messages / 2))
		left := w.take("orders.dlq")
		var stays, odd []string
		for i := range left {
			stays, odd = append(stays, deadletter.Fingerprint(&left[i])), append(odd, known[2*i+1])
		}
		Expect(stays).To(Equal(odd), "nothing but counters has changed")
		even := slices.DeleteFunc(numbered(messages), func(message amqp.Publishing) bool { return isOdd(message.Headers["n"].(int64)) })
		moved := w.take("orders")
		Expect(moved).To(HaveLen(len(even)))
		for _, message := range even {
			Expect(moved).To(ContainElement(HaveField("Body", Equal(message.Body))))
		}
	})

	It("returns only the ConsumerQueue's own messages from a shared queue", func() {
		w := newWorld(newest)
		w.Queue("orders", `{deadLetter: {queue: {name: shared.dlq}}}`)
		w.Queue("bills", `{deadLetter: {queue: {name: shared.dlq}}}`)
		w.Ready("orders")
		w.Ready("bills")
		from := func(queue string) amqp.Publishing {
			return amqp.Publishing{Headers: amqp.Table{"x-failure-queue": queue}, Body: []byte(queue)}
		}
		w.VHost.Send("", "shared.dlq", from("orders"), from("bills"), from("bills"), amqp.Publishing{Body: []byte("whose?")})
		reader := w.deadLetterClient(editor)
		found := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages", &found)
		Expect(letters(found)).To(ConsistOf(HaveField("Body", "orders")))
		Expect(found.Skipped).To(Equal(map[string]int64{"OtherOrigin": 2, "NoOrigin": 1}))
		Expect(found.Partial).To(BeFalse())
		reader.Get("/orders/messages?unknownOrigin=true", &found)
		Expect(letters(found)).To(ConsistOf(HaveField("Body", "orders"), HaveField("Body", "whose?")))
	})

	It("returns the messages that a Redrive does not hold, and how many it holds", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(100)...)
		reader := w.deadLetterClient(editor)
		w.Redrive("again", `{consumerQueueRef: {name: orders}, rate: 1}`)
		w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionUnknown, "Moving"))
		found := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages?limit=1000", &found)
		Expect(found.PartialReason).To(Equal(v1alpha1.PartialJobRunning))
		Expect(found.Held).To(BeNumerically(">", 0))
		Expect(found.Items).NotTo(BeEmpty())
		Expect(len(found.Items) + int(found.Held)).To(BeNumerically("<=", 100))
		Expect(w.Kube.Delete(ctx(), w.GetRedrive("again"))).To(Succeed())
		Eventually(func() bool {
			found = v1alpha1.DeadLetterList{}
			reader.Get("/orders/messages?limit=1000", &found)
			return found.Partial
		}).Should(BeFalse())
		w.EventuallyMessages("orders", Equal(100-len(found.Items)))
	})

	It("exports all messages while a dry run that begins at the same time counts all", Extended, func() {
		const messages = 5000
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(messages)...)
		reader := w.deadLetterClient(admin)
		for round := range 3 {
			dry := fmt.Sprintf("dry-%d", round)
			var exporting sync.WaitGroup
			exporting.Go(func() {
				defer GinkgoRecover()
				Expect(exportEnd(reader.EventuallyStatus("/orders/export", http.StatusOK))).To(Equal(
					v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: messages, Ready: messages}))
			})
			w.Redrive(dry, `{consumerQueueRef: {name: orders}, dryRun: true}`)
			w.EventuallyRedrive(dry, Condition("Ready", metav1.ConditionTrue, "DryRun"),
				Message(Equal(fmt.Sprintf("%d of %d messages would be moved", messages, messages))))
			exporting.Wait()
		}
	})

	It("does not let a dry run skip messages that a consumer holds", Extended, func() { // a lost connection may hold them: 40 s
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(100)...)
		connection, err := w.VHost.Connect("holds")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(connection.Close)
		channel, err := connection.Channel()
		Expect(err).NotTo(HaveOccurred())
		for range 40 {
			_, _, err := channel.Get("orders.dlq", false)
			Expect(err).NotTo(HaveOccurred())
		}
		w.Redrive("dry", `{consumerQueueRef: {name: orders}, dryRun: true}`)
		w.EventuallyRedrive("dry", Condition("Ready", metav1.ConditionFalse, "Incomplete"), Message(HavePrefix(
			`60 of 100 messages would be moved, 40 not seen: another consumer of queue "orders.dlq" holds them or has taken them`)))
	})

	It("accepts tokens with its audience of users whom RBAC authorizes", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		paths := []string{"", "/orders", "/orders/messages", "/orders/export"}
		for role, want := range map[string][]int{
			viewer: {http.StatusOK, http.StatusOK, http.StatusForbidden, http.StatusForbidden},
			editor: {http.StatusOK, http.StatusOK, http.StatusOK, http.StatusForbidden},
			admin:  {http.StatusOK, http.StatusOK, http.StatusOK, http.StatusOK},
		} {
			reader := w.deadLetterClient(role)
			for i, path := range paths { // every role allows the first path, so it shows when the API server applies the role
				By(role + " requests " + path)
				reader.EventuallyStatus(path, want[i])
			}
		}
		code, _ := w.DeadLetterClient(deadLetterServer, "nobody", "").Request("")
		Expect(code).To(Equal(http.StatusForbidden))
	})

	It("refuses other tokens", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		reader := w.deadLetterClient(admin)
		reader.EventuallyStatus("", http.StatusOK)
		const account = "deadletterqueue-admin-role"
		for name, header := range map[string]http.Header{
			"none":                        {},
			"a token for the API server":  {"Authorization": {"Bearer " + w.Token(account)}},
			"a token for another service": {"Authorization": {"Bearer " + w.Token(account, "other")}},
			"a made-up token":             {"Authorization": {"Bearer abc"}},
			"the header of a proxy":       {"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
		} {
			reader.Header = header
			code, body := reader.Request("/orders/messages")
			Expect(code).To(Equal(http.StatusUnauthorized), "%s: %s", name, body)
			status := metav1.Status{}
			Expect(json.Unmarshal(body, &status)).To(Succeed())
			Expect(status.Kind).To(Equal("Status"))
			Expect(status.Message).To(ContainSubstring("--audience=warren"))
		}
		reader.Header = http.Header{}
		reader.UseClientCertificate(kube.Config) // the certificate of a cluster administrator
		code, body := reader.Request("/orders/messages")
		Expect(code).To(Equal(http.StatusUnauthorized))
		Expect(string(body)).To(ContainSubstring("Client certificates and tokens for the API server are not accepted"))
		reader.Header = http.Header{v1alpha1.TokenHeader: {w.Token(account, v1alpha1.Audience)}}
		reader.EventuallyStatus("", http.StatusOK)
	})

	It("shows the content of messages only to its client", func() {
		const secret = "payload-nobody-logs-4711"
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", amqp.Publishing{Headers: amqp.Table{"h": secret, "api-key": "k-" + secret}, Body: []byte(secret)})
		reader := w.deadLetterClient(admin)
		found := v1alpha1.DeadLetterList{}
		reader.Get("/orders/messages", &found)
		Expect(letters(found)[0].Body).To(Equal(secret))
		Expect(letters(found)[0].Headers).To(Equal(map[string]any{"h": secret, "api-key": "[redacted]"}))
		reader.Get("/orders", &v1alpha1.DeadLetterQueue{})
		reader.EventuallyStatus("/orders/messages?expression="+secret, http.StatusBadRequest)
		Eventually(logged).WithArguments("Browsed dead letters").Should(ContainElement(SatisfyAll(
			ContainSubstring(w.Namespace+"/orders"), ContainSubstring("system:serviceaccount:"+w.Namespace))))
		Consistently(logged).WithArguments(secret).WithTimeout(time.Second).Should(BeEmpty())
	})
})

// eventuallyRefused waits until every kind of browse is refused, because RabbitMQ would delete the messages.
func eventuallyRefused(reader *DeadLetterClient) {
	GinkgoHelper()
	for _, path := range []string{"/orders", "/orders/messages", "/orders/export"} {
		Eventually(func(g Gomega) {
			code, body := reader.Request(path)
			g.Expect(code).To(Equal(http.StatusConflict), "%s", body)
			g.Expect(string(body)).To(ContainSubstring(`queue \"orders.dlq\" has a delivery limit`))
		}).Should(Succeed())
	}
}

// rejectOften requeues the first message of a queue count times and then dead-letters it.
func (w *world) rejectOften(queue string, times int) {
	GinkgoHelper()
	messages, stop := w.oneByOne(queue)
	for i := range times + 1 {
		var message amqp.Delivery
		Eventually(messages).Should(Receive(&message))
		Expect(message.Reject(i < times)).To(Succeed())
	}
	stop()
}

func isOdd(number int64) bool { return number%2 == 1 }
