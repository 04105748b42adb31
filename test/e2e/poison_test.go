package e2e

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

// large has headers that fit into an AMQP frame, but not together with the headers of a Redrive.
func large() amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("large"), Headers: amqp.Table{"text": strings.Repeat("x", 130_900)}}
}

// sendUnreadable publishes a message that the broker cannot deliver over AMQP 0-9-1, which has no UUIDs. RabbitMQ 3.10 adds a
// header to messages that it delivers again.
func (w *world) sendUnreadable(queue string) {
	GinkgoHelper()
	if w.Broker.KnowsAMQP10() {
		w.VHost.SendAMQP10(queue, brokers.AMQP10{Body: "unreadable", Properties: map[string]any{"id": brokers.UUID{1}}})
		return
	}
	before := w.VHost.Ready(queue)
	w.VHost.Send("", queue, amqp.Publishing{
		DeliveryMode: amqp.Persistent, Body: []byte("unreadable"), Headers: amqp.Table{"text": strings.Repeat("x", 131_015)},
	})
	connection, err := w.VHost.Connect("browse")
	Expect(err).NotTo(HaveOccurred())
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	messages, err := channel.Consume(queue, "", false, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	for range before + 1 {
		Eventually(messages).Should(Receive())
	}
	Expect(connection.Close()).To(Succeed())
	Eventually(func() int { return w.VHost.Ready(queue) }).Should(Equal(before + 1))
}

var _ = Describe("A Redrive", func() {
	onEachBroker("moves messages that cannot be published unchanged, and leaves and names messages that the broker refuses",
		func(broker brokers.Broker) {
			w := newWorld(broker)
			w.VHost.DeclareQueue("elsewhere", map[string]any{"x-queue-type": "quorum"})
			w.Queue("orders", `{}`)
			w.Ready("orders")
			user := broker.NewUser(GinkgoTB())
			w.VHost.Grant(user, ".*", ".*", ".*")
			other := broker
			other.Username, other.Password = user.Username, user.Password
			w.VHost.Through(other).Send("", "orders.dlq", amqp.Publishing{UserId: user.Username, Body: []byte("of another user")})
			w.VHost.Send("", "orders.dlq",
				amqp.Publishing{Body: []byte("expires"), Expiration: "3600000"},
				amqp.Publishing{Body: []byte("copied"), Headers: amqp.Table{"CC": []any{"elsewhere"}}},
				amqp.Publishing{Body: []byte("copied to a number"), Headers: amqp.Table{"CC": []any{int32(1)}}})
			w.VHost.Send("", "orders.dlq", large())
			want := []string{"of another user", "expires", "copied", "copied to a number"}
			refused := map[string]v1alpha1.RedriveFailure{
				"large": {Reason: "HeadersTooLarge", Message: "its headers leave less than 8 KiB of an AMQP frame for the headers that the broker adds"},
			}
			if broker.KnowsAMQP10() { // only AMQP 1.0 can create such messages
				w.VHost.SendAMQP10("orders.dlq",
					brokers.AMQP10{Body: "CC is no list", Properties: map[string]any{"CC": "elsewhere"}},
					brokers.AMQP10{Body: "direct reply", ReplyTo: "amq.rabbitmq.reply-to"})
				want = append(want, "CC is no list", "direct reply")
			}
			behind := numbersBut(300, 300, 300)
			w.VHost.Publish("", "orders.dlq", behind...)

			w.Redrive("again", `{consumerQueueRef: {name: orders}, rate: Unlimited}`)
			found := w.incomplete("again")
			Expect(*found.Moved).To(BeEquivalentTo(len(want) + len(behind)))
			Expect(*found.Failed).To(BeEquivalentTo(len(refused)))
			Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(len(refused)))
			left := w.take("orders.dlq")
			named := map[string]v1alpha1.RedriveFailure{}
			for i := range left {
				id := deadletter.Fingerprint(&left[i])
				at := slices.IndexFunc(found.Failures, func(failure v1alpha1.RedriveFailure) bool { return failure.ID == id })
				Expect(at).To(BeNumerically(">=", 0), "%q is not among %+v", left[i].Body, found.Failures)
				named[string(left[i].Body)] = v1alpha1.RedriveFailure{Reason: found.Failures[at].Reason, Message: found.Failures[at].Message}
			}
			Expect(named).To(Equal(refused))
			moved := w.take("orders")
			arrived := bodies(moved)
			// Copies that were unconfirmed when the broker closed the channel because of another message may exist twice.
			front := arrived[:len(arrived)-len(behind)]
			slices.Sort(front)
			Expect(slices.Compact(front)).To(ConsistOf(want))
			Expect(arrived[len(arrived)-len(behind):]).To(Equal(behind))
			Expect(moved).To(HaveEach(SatisfyAll(HaveField("UserId", ""), HaveField("Expiration", ""), HaveField("Headers", Not(HaveKey("CC"))))))
			Expect(bodies(w.take("elsewhere"))).To(Equal([]string{"copied"}), "where it was copied to when it was published first")
		})

	onEachBroker("ends at a message that the broker cannot deliver, as every consumer of the queue does",
		func(broker brokers.Broker) {
			w := newWorld(broker)
			w.Queue("orders", `{}`)
			w.Ready("orders")
			w.VHost.Send("", "orders.dlq", numbered(20)...)
			w.sendUnreadable("orders.dlq")
			w.VHost.Publish("", "orders.dlq", "behind")

			found := deadletters.DeadLetterList{}
			w.deadLetterClient(editor).Get("/orders/messages?limit=100", &found)
			Expect(found.PartialReason).To(Equal(deadletters.PartialUnreadable))
			Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(22))
			w.Purge("none", `{consumerQueueRef: {name: orders}, expectedAtMost: 100}`)
			purge := w.EventuallyPurge("none", Condition("Ready", metav1.ConditionFalse, "UnreadableMessage"),
				Condition("Stalled", metav1.ConditionTrue, "UnreadableMessage"))
			Expect(*purge.Status.Deleted).To(BeZero())

			w.Redrive("again", `{consumerQueueRef: {name: orders}}`)
			ended := w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionFalse, "UnreadableMessage"),
				Condition("Stalled", metav1.ConditionTrue, "UnreadableMessage"),
				Message(ContainSubstring(`the message at the head of queue "orders.dlq" cannot be read over AMQP 0-9-1`)))
			Expect(kstatusOf(ended)).To(Equal(status.FailedStatus))
			Expect(ended.Status.CompletionTime).NotTo(BeNil())
			w.EventuallyReasons("again", Equal([]string{"Started", "Failed"}))
			moved := bodies(w.take("orders"))
			slices.Sort(moved) // an unconfirmed copy may exist twice after the connection was lost
			moved = slices.Compact(moved)
			left := 2
			if slices.Contains(moved, "behind") { // it may be in front after the broker has requeued messages
				left = 1
				moved = slices.DeleteFunc(moved, func(body string) bool { return body == "behind" })
			}
			Expect(moved).To(ConsistOf(numbersBut(20, 20, 20)))
			Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(left))
		})

	It("ends when too many messages could not be moved", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		messages := numbered(20)
		for i := range messages {
			messages[i].Headers["x-original-exchange"], messages[i].Headers["x-original-routing-key"] = "nowhere", "placed"
		}
		w.VHost.Send("", "orders.dlq", messages...)
		w.Redrive("home", `{consumerQueueRef: {name: orders}, destination: {type: Original}, maxFailures: 3}`)
		ended := w.EventuallyRedrive("home", Condition("Ready", metav1.ConditionFalse, "TooManyFailures"),
			Condition("Stalled", metav1.ConditionTrue, "TooManyFailures"),
			Message(Equal(`0 of 20 messages moved, 3 could not be moved. The failed messages remain in queue "orders.dlq", and status.failures lists the first of them`)))
		Expect(kstatusOf(ended)).To(Equal(status.FailedStatus))
		Expect(ended.Status.Failures).To(HaveLen(3))
		Expect(ended.Status.Failures).To(HaveEach(HaveField("Reason", "Refused")))
		w.EventuallyReasons("home", Equal([]string{"Started", "Failed"}))
		Expect(w.left(20)).To(Equal(numbersBut(20, 20, 20)))
	})
})
