package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// interrupt is the signal of Ctrl-C.
var interrupt = os.Interrupt

// park publishes messages to a dead-letter queue. Their header n counts from zero.
func (w *world) park(queue string, count int) {
	GinkgoHelper()
	messages := make([]amqp.Publishing, count)
	for i := range messages {
		messages[i] = amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"n": int64(i)}, Body: fmt.Appendf(nil, `{"n": %d}`, i),
		}
	}
	w.VHost.Send("", queue, messages...)
	Eventually(func() int { return w.VHost.Ready(queue) }).Should(Equal(count))
}

// redrives returns the Redrives of the namespace.
func (w *world) redrives() []v1alpha1.Redrive {
	GinkgoHelper()
	list := &v1alpha1.RedriveList{}
	Expect(kube.List(ctx(), list, client.InNamespace(w.Namespace))).To(Succeed())
	return list.Items
}

// running is a running `kubectl warren`.
type running struct {
	command     *exec.Cmd
	out, errOut *bytes.Buffer
}

// start starts a command.
func (w *world) start(args ...string) *running {
	GinkgoHelper()
	r := &running{command: w.command(args...), out: &bytes.Buffer{}, errOut: &bytes.Buffer{}}
	r.command.Stdout, r.command.Stderr = r.out, r.errOut
	Expect(r.command.Start()).To(Succeed())
	return r
}

// move starts to move the messages of orders.dlq slowly.
func (w *world) move() *running {
	GinkgoHelper()
	r := w.start("dlq", "redrive", "orders", "--yes", "--rate=2")
	Eventually(func() int { return w.VHost.Ready("orders") }).Should(BeNumerically(">", 0))
	return r
}

// wait waits for the end of the command.
func (r *running) wait() ended {
	GinkgoHelper()
	_ = r.command.Wait() // the exit code is checked by the caller
	return ended{r.out.String(), r.errOut.String(), r.command.ProcessState.ExitCode()}
}

var _ = Describe("kubectl warren dlq", func() {
	It("counts, asks, moves messages, and leaves a record", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 20)
		arguments := []string{"dlq", "redrive", "orders", "--expression=headers.n < 5", "--died-reason=parked", "--reason=the API is back"}

		counted := w.warren(append(arguments, "--dry-run")...)
		Expect(counted).To(Equal(ended{Out: "Queue orders.dlq: 5 of 20 messages would be moved, 15 skipped (NotSelected).\n", ErrOut: counted.ErrOut}))
		Expect(w.redrives()).To(BeEmpty(), "the dry run is deleted")

		w.EventuallyMessages("orders.dlq", Equal(20))
		printed := w.warren(append(arguments, "--dry-run", "-o", "json")...)
		Expect(printed).To(HaveField("Code", 0))
		dryRun := v1alpha1.Redrive{}
		Expect(json.Unmarshal([]byte(printed.Out), &dryRun)).To(Succeed())
		Expect(dryRun).To(SatisfyAll(HaveField("Kind", "Redrive"), HaveField("Spec.DryRun", BeTrue()),
			HaveField("Status.Moved", HaveValue(BeEquivalentTo(5))), HaveField("Status.Total", HaveValue(BeEquivalentTo(20)))))

		w.EventuallyMessages("orders.dlq", Equal(20))
		refused := w.answer("n\n", arguments...)
		Expect(refused).To(SatisfyAll(HaveField("Code", 1),
			HaveField("ErrOut", ContainSubstring("Move 5 messages from orders.dlq to orders, 100 a second? [y/N]")),
			HaveField("ErrOut", ContainSubstring("No message was moved"))))
		Expect(w.warren(arguments...)).To(HaveField("Code", 1), "nobody answers")
		Expect(w.redrives()).To(BeEmpty())
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(20))

		moved := w.answer("y\n", arguments...)
		Expect(moved).To(SatisfyAll(HaveField("Code", 0),
			HaveField("Out", ContainSubstring("Completed: 5 of 20 messages moved"))))
		Eventually(func() int { return w.VHost.Ready("orders") }).Should(Equal(5))
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(15))
		Expect(w.redrives()).To(ConsistOf(HaveField("Spec", SatisfyAll(
			HaveField("RequestedBy", "admin"), HaveField("Reason", "the API is back"), HaveField("MaxMessages", HaveValue(BeEquivalentTo(5))), HaveField("TTLSecondsAfterFinished", HaveValue(BeEquivalentTo(86400))),
			HaveField("Selector.Expression", "headers.n < 5"), HaveField("Selector.Reasons", ConsistOf(BeEquivalentTo("Parked")))))))

		w.EventuallyMessages("orders.dlq", Equal(15))
		none := w.warren("dlq", "redrive", "orders", "--expression=headers.n == 77", "--yes")
		Expect(none).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", ContainSubstring("0 of 15 messages would be moved"))))
	})

	It("exits with 5 when a message could not be moved", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 3)
		w.VHost.Send("", "orders.dlq", amqp.Publishing{Headers: amqp.Table{"pad": strings.Repeat("x", 124_000)}}) // leaves no room for more headers
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(4))
		Expect(w.warren("dlq", "redrive", "orders", "--yes")).To(SatisfyAll(HaveField("Code", 5),
			HaveField("Out", ContainSubstring("3 of 4 messages moved, 1 could not be moved"))))
	})

	It("moves to another destination and prints the Redrive", Extended, func() {
		w := newWorld()
		w.queue("orders", `{retry: {delayTiers: [{delay: 1h}]}}`)
		w.park("orders.dlq", 7)
		printed := w.warren("dlq", "redrive", "orders", "--yes", "--max-messages=3", "--to=retry", "--rate=unlimited", "-o", "json")
		Expect(printed).To(HaveField("Code", 0))
		redrive := v1alpha1.Redrive{}
		Expect(json.Unmarshal([]byte(printed.Out), &redrive)).To(Succeed())
		Expect(redrive.Kind).To(Equal("Redrive"))
		Expect(redrive.Status.Moved).To(HaveValue(BeEquivalentTo(3)))
		Eventually(func() int { return w.VHost.Ready("orders.retry.1h") }).Should(Equal(3))
	})

	It("does not stop a Redrive on Ctrl-C, follows it again, and cancels it", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 200)
		detached := w.move()
		name := w.redrives()[0].Name
		Expect(detached.command.Process.Signal(interrupt)).To(Succeed())
		Expect(detached.wait()).To(SatisfyAll(HaveField("Code", 130),
			HaveField("ErrOut", ContainSubstring("continues without this command")),
			HaveField("ErrOut", ContainSubstring("kubectl warren dlq cancel "+name))))
		Expect(w.warren("__complete", "dlq", "cancel", "").Out).To(HavePrefix(name + "\n"))

		following := w.start("dlq", "follow", name)
		cancelled := w.warren("dlq", "cancel", name)
		Expect(cancelled).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", HavePrefix("Cancelled: "))))
		Expect(following.wait()).To(SatisfyAll(HaveField("Code", 4), HaveField("Out", ContainSubstring("Cancelled: "))))
		Expect(w.warren("dlq", "cancel", name)).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("has ended already: Cancelled"))))
		Expect(w.warren("dlq", "follow", name)).To(HaveField("Code", 4))
	})

	It("lists jobs, changes their rate, suspends, resumes and cancels them", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 100)
		w.Redrive("first", `{consumerQueueRef: {name: orders}, rate: 1, requestedBy: jane}`)
		w.EventuallyRedrive("first", Condition("Ready", metav1.ConditionUnknown, "Moving"))

		watching := w.command("dlq", "ls", "--watch", "orders")
		listed, interrupted := &lines{}, make(chan error, 1)
		watching.Stdout = listed
		Expect(watching.Start()).To(Succeed())
		go func() { interrupted <- watching.Wait() }()
		Eventually(listed.String).Should(MatchRegexp(`^NAME .* UNDER WAY\norders .* [1-9]\d*\n`))
		Expect(w.warren("dlq", "rate", "first", "2")).To(Equal(ended{Out: "Redrive first has rate 2.\n"}))
		Expect(w.redrives()).To(ConsistOf(HaveField("Spec.Rate.IntVal", BeEquivalentTo(2))))
		Expect(w.warren("dlq", "suspend", "redrive/first")).To(Equal(ended{Out: "Redrive first is suspended.\n"}))
		w.EventuallyRedrive("first", Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		Expect(w.warren("dlq", "jobs", "orders").Out).To(MatchRegexp(
			`^NAME +CONSUMERQUEUE +STATE +PROGRESS +AGE +BY\nfirst +orders +Suspended +\d+ of 100 moved +\d+[sm] +jane\n$`))
		Expect(w.warren("dlq", "jobs", "payments")).To(Equal(ended{ErrOut: "There is no Redrive and no Purge of ConsumerQueue \"payments\" in namespace \"" + w.Namespace + "\".\n"}))
		Expect(w.warren("dlq", "jobs", "-o", "jsonpath={.kind} {.items[*].kind}").Out).To(Equal("List Redrive"))
		Eventually(listed.String).Should(MatchRegexp(`\norders .* 0\n$`), "nothing is under way while the Redrive is suspended")
		Expect(watching.Process.Signal(interrupt)).To(Succeed())
		Eventually(interrupted).Should(Receive(BeNil()), "Ctrl-C is no error")
		Expect(w.warren("dlq", "resume", "first")).To(Equal(ended{Out: "Redrive first is resumed.\n"}))

		Expect(w.warren("dlq", "cancel", "first")).To(HaveField("Code", 0))
		Expect(w.warren("dlq", "rate", "first", "3")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring(`the Redrive "first" has ended already: Cancelled`))))
	})

	It("fails if the ConsumerQueue is deleted meanwhile", Extended, func() {
		w := newWorld()
		w.queue("orders", `{deletionPolicy: Retain}`)
		w.park("orders.dlq", 200)
		going := w.move()
		w.Delete("orders")
		Expect(going.wait()).To(SatisfyAll(HaveField("Code", 3), HaveField("Out", ContainSubstring("ConsumerQueueGone"))))
	})

	It("prints the operator's message about an invalid selector", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		Expect(w.warren("dlq", "redrive", "orders", "--expression=headers.n <")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("InvalidSelector: spec.selector.expression"))))
		Expect(w.warren("dlq", "redrive", "orders", "--id=short")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("spec.selector.ids[0]"))))
		Expect(w.warren("dlq", "redrive", "none", "--yes")).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring(`"none" not found`))))
		Expect(w.redrives()).To(BeEmpty())
	})

	It("offers alternatives if messages cannot be counted", Extended, func() {
		w := newWorld()
		w.queue("orders", `{deadLetter: {queue: {deliveryLimit: 3}}}`)
		w.park("orders.dlq", 4)
		refused := w.warren("dlq", "redrive", "orders", "--died-reason=Parked", "--yes")
		Expect(refused).To(SatisfyAll(HaveField("Code", 1),
			HaveField("ErrOut", ContainSubstring(`queue "orders.dlq" has a delivery limit`)),
			HaveField("ErrOut", ContainSubstring("kubectl warren dlq redrive orders"))))
		Expect(w.warren("dlq", "redrive", "orders", "--dry-run", "--yes")).To(SatisfyAll(HaveField("Code", 1),
			HaveField("ErrOut", ContainSubstring("without --dry-run"))))
		Expect(w.redrives()).To(BeEmpty())
		moved := w.answer("yes\n", "dlq", "redrive", "orders")
		Expect(moved).To(SatisfyAll(HaveField("Code", 0),
			HaveField("Out", ContainSubstring("The messages cannot be counted")),
			HaveField("ErrOut", ContainSubstring("to the main queue, 100 a second, one at a time, without a count? [y/N]")),
			HaveField("Out", ContainSubstring("Completed: 4 of 4 messages moved"))))
	})

	It("returns immediately with --detach and names the running job", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 100)
		w.Redrive("first", `{consumerQueueRef: {name: orders}, rate: 1}`)
		w.EventuallyRedrive("first", Condition("Ready", metav1.ConditionUnknown, "Moving"))
		w.Account("warren-dead-letters", "deadletterqueue_editor_role")
		w.eventuallyWarren(SatisfyAll(HaveField("Code", 0), HaveField("Out", ContainSubstring(
			"Not all messages were seen: a running Redrive or Purge holds messages (JobRunning)."))), "dlq", "show", "orders")
		waiting := w.command("dlq", "redrive", "orders", "--yes", "--detach", "-o", "name")
		out, errOut := &bytes.Buffer{}, &lines{}
		waiting.Stdout, waiting.Stderr = out, errOut
		Expect(waiting.Start()).To(Succeed())
		Eventually(errOut.String).Should(ContainSubstring(`Queued: `))
		Expect(w.warren("dlq", "cancel", "first")).To(HaveField("Code", 0))
		Expect(waiting.Wait()).To(Succeed())
		Expect(strings.TrimSpace(out.String())).To(HavePrefix("redrive.messaging.warren.dev/orders-"))
	})
})
