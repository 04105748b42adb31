package plugin

import (
	"encoding/json"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// purges returns the Purges of the namespace.
func (w *world) purges() []v1alpha1.Purge {
	GinkgoHelper()
	list := &v1alpha1.PurgeList{}
	Expect(kube.List(ctx(), list, client.InNamespace(w.Namespace))).To(Succeed())
	return list.Items
}

// remain waits until orders.dlq has count messages, removes them, and returns their headers n.
func (w *world) remain(count int) []string {
	GinkgoHelper()
	Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(count))
	numbers := make([]string, count)
	connection, err := w.VHost.Connect("remain")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	messages, err := channel.ConsumeWithContext(ctx(), "orders.dlq", "", true, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	for i := range numbers {
		message := <-messages
		numbers[i] = strconv.FormatInt(message.Headers["n"].(int64), 10)
	}
	return numbers
}

// purge starts to delete the messages of orders.dlq slowly and returns the Purge's name.
func (w *world) purge() (*running, string) {
	GinkgoHelper()
	r := w.start("dlq", "purge", "orders", "--yes", "--expected-at-most=200", "--rate=2")
	Eventually(w.purges).Should(ContainElement(HaveField("Status.Deleted", HaveValue(BeNumerically(">", 0)))))
	return r, w.purges()[0].Name
}

var _ = Describe("kubectl warren dlq purge", func() {
	It("counts, asks for the number, deletes the selected messages, and leaves a record", Long, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 8)
		selected := []string{"dlq", "purge", "orders", "--expression=headers.n >= 3 && body.n < 6", "--died-reason=parked", "--reason=mended by hand"}
		limited := slices.Concat(selected, []string{"--expected-at-most=5"})

		counted := w.warren(append(selected, "--dry-run")...)
		Expect(counted).To(Equal(ended{Out: "Queue orders.dlq: 3 of 8 messages would be deleted, 5 skipped (NotSelected).\n", ErrOut: counted.ErrOut}))
		Expect(w.purges()).To(BeEmpty(), "the dry run is deleted")

		w.EventuallyMessages("orders.dlq", Equal(8))
		Expect(w.warren(append(selected, "--expected-at-most=2", "--dry-run")...)).To(SatisfyAll(HaveField("Code", 1),
			HaveField("ErrOut", ContainSubstring("3 messages match, and --expected-at-most is 2: none is deleted"))))

		for _, answer := range []string{"", "y\n", "yes\n", "5\n", "30\n"} {
			w.EventuallyMessages("orders.dlq", Equal(8))
			Expect(w.answer(answer, limited...)).To(SatisfyAll(HaveField("Code", 1),
				HaveField("ErrOut", ContainSubstring("Delete 3 messages from orders.dlq? They cannot be recovered. Type the number of messages to delete: ")),
				HaveField("ErrOut", ContainSubstring("No message was deleted: type 3"))))
		}
		Expect(w.purges()).To(BeEmpty())
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(8))

		Expect(w.answer("3\n", limited...)).To(SatisfyAll(HaveField("Code", 0),
			HaveField("Out", ContainSubstring("Completed: deleted 3 of 3 messages that match, 5 skipped (NotSelected)"))))
		Expect(w.purges()).To(ConsistOf(HaveField("Spec", SatisfyAll(
			HaveField("RequestedBy", "admin"), HaveField("Reason", "mended by hand"), HaveField("ExpectedAtMost", BeEquivalentTo(3)),
			HaveField("TTLSecondsAfterFinished", HaveValue(BeEquivalentTo(86400))), HaveField("Rate.StrVal", "Unlimited"),
			HaveField("Selector.Expression", "headers.n >= 3 && body.n < 6"), HaveField("Selector.Reasons", ConsistOf(BeEquivalentTo("Parked")))))))

		w.EventuallyMessages("orders.dlq", Equal(5))
		Expect(w.warren(append(limited, "--yes")...)).To(SatisfyAll(HaveField("Code", 0),
			HaveField("Out", "Queue orders.dlq: 0 of 5 messages would be deleted, 5 skipped (NotSelected).\n"),
			HaveField("ErrOut", MatchRegexp(`^(\d+ of 5 examined[^\n]*\n)*$`))), "there is nothing to ask")
		Expect(w.purges()).To(HaveLen(1))
		Expect(w.remain(5)).To(Equal([]string{"0", "1", "2", "6", "7"}))
	})

	It("refuses if more messages match than --expected-at-most, and asks for a number", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 8)
		for _, flag := range []string{"--yes", "--dry-run"} {
			w.EventuallyMessages("orders.dlq", Equal(8))
			Expect(w.warren("dlq", "purge", "orders", "--expected-at-most=7", flag)).To(SatisfyAll(HaveField("Code", 1),
				HaveField("Out", ContainSubstring("8 of 8 messages would be deleted")),
				HaveField("ErrOut", ContainSubstring("8 messages match, and --expected-at-most is 7: none is deleted"))))
		}
		Expect(w.warren("dlq", "purge", "orders", "--yes")).To(SatisfyAll(HaveField("Code", 1),
			HaveField("ErrOut", ContainSubstring("To count the messages first, use --dry-run instead"))))
		Expect(w.purges()).To(BeEmpty())
		Expect(w.remain(8)).To(HaveLen(8))
	})

	It("prints the Purge with the number of --expected-at-most if it does not ask", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 4)
		printed := w.warren("dlq", "purge", "orders", "--yes", "--expected-at-most=9", "--id=aaaaaaaaaaaaaaaa", "-o", "jsonpath={.spec.dryRun} {.status.matched}")
		Expect(printed).To(SatisfyAll(HaveField("Code", 0), HaveField("Out", Equal("true 0"))), "the dry run, as nothing matches")
		w.EventuallyMessages("orders.dlq", Equal(4))
		printed = w.warren("dlq", "purge", "orders", "--yes", "--expected-at-most=9", "--rate=1000", "-o", "json")
		Expect(printed).To(HaveField("Code", 0))
		purge := v1alpha1.Purge{}
		Expect(json.Unmarshal([]byte(printed.Out), &purge)).To(Succeed())
		Expect(purge).To(SatisfyAll(HaveField("Kind", "Purge"), HaveField("Spec.ExpectedAtMost", BeEquivalentTo(9)),
			HaveField("Status.Deleted", HaveValue(BeEquivalentTo(4)))))
		Expect(w.remain(0)).To(BeEmpty())
	})

	It("does not stop a Purge on Ctrl-C, follows it again, and cancels it", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 200)
		detached, name := w.purge()
		Expect(detached.command.Process.Signal(interrupt)).To(Succeed())
		Expect(detached.wait()).To(SatisfyAll(HaveField("Code", 130),
			HaveField("ErrOut", ContainSubstring("Purge \""+name+"\" continues without this command")),
			HaveField("ErrOut", ContainSubstring("kubectl warren dlq follow purge/"+name)),
			HaveField("ErrOut", ContainSubstring("kubectl warren dlq cancel purge/"+name))))
		Expect(w.warren("__complete", "dlq", "cancel", "").Out).To(HavePrefix("purge/" + name + "\n"))
		Expect(w.warren("dlq", "follow", "redrive/"+name)).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("`kubectl warren dlq jobs` lists the Redrives and Purges of the namespace"))))

		following := w.start("dlq", "follow", "purge/"+name)
		Expect(w.warren("dlq", "cancel", name)).To(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", MatchRegexp(`^Cancelled: deleted \d+ of 200 messages that match\n$`))))
		Expect(following.wait()).To(SatisfyAll(HaveField("Code", 4), HaveField("Out", ContainSubstring("Cancelled: "))))
		Expect(w.warren("dlq", "cancel", "purge/"+name)).To(SatisfyAll(
			HaveField("Code", 1), HaveField("ErrOut", ContainSubstring("has ended already: Cancelled"))))
	})

	It("fails if the ConsumerQueue is deleted meanwhile, and reports a cancelled Purge", Extended, func() {
		w := newWorld()
		w.queue("orders", `{deletionPolicy: Retain}`)
		w.park("orders.dlq", 200)
		cancelled, name := w.purge()
		w.EditPurge(name, func(spec *v1alpha1.PurgeSpec) { spec.Cancel = true })
		Expect(cancelled.wait()).To(SatisfyAll(HaveField("Code", 4), HaveField("Out", ContainSubstring("Cancelled: "))))
		kube.Kubectl("delete", "purge", "--namespace="+w.Namespace, name)

		failed, _ := w.purge()
		w.Delete("orders")
		Expect(failed.wait()).To(SatisfyAll(HaveField("Code", 3), HaveField("Out", ContainSubstring("ConsumerQueueGone"))))
	})

	It("needs the role admin", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.letEdit()
		w.park("orders.dlq", 2)
		for _, flag := range []string{"--dry-run", "--yes"} {
			Expect(w.warren("dlq", "purge", "orders", "--expected-at-most=2", flag, editor)).To(SatisfyAll(HaveField("Code", 1), HaveField("Out", BeEmpty()),
				HaveField("ErrOut", ContainSubstring(`User "editor" cannot create resource "purges"`)),
				HaveField("ErrOut", ContainSubstring("deleting dead letters needs the role admin in the namespace"))))
		}
		Expect(w.purges()).To(BeEmpty())
		Expect(w.remain(2)).To(HaveLen(2))
	})

	It("prints the operator's message if messages cannot be counted", Extended, func() {
		w := newWorld()
		w.queue("orders", `{deadLetter: {queue: {deliveryLimit: 3}}}`)
		w.park("orders.dlq", 4)
		for because, args := range map[string][]string{
			`DeliveryLimited: queue "orders.dlq" has a delivery limit`: {"orders"},
			"spec.selector.ids[0]": {"orders", "--id=short"},
			`"none" not found`:     {"none"},
		} {
			Expect(w.warren(append([]string{"dlq", "purge", "--expected-at-most=9", "--yes"}, args...)...)).To(SatisfyAll(
				HaveField("Code", 1), HaveField("ErrOut", ContainSubstring(because))))
		}
		Expect(w.purges()).To(BeEmpty())
		Expect(w.remain(4)).To(HaveLen(4))
	})

	It("returns immediately with --detach and names the running job", Extended, func() {
		w := newWorld()
		w.queue("orders", `{}`)
		w.park("orders.dlq", 100)
		w.Redrive("first", `{consumerQueueRef: {name: orders}, rate: 1}`)
		w.EventuallyRedrive("first", Condition("Ready", metav1.ConditionUnknown, "Moving"))
		waiting, out, errOut := w.command("dlq", "purge", "orders", "--yes", "--expected-at-most=100", "--detach", "-o", "name"), &lines{}, &lines{}
		waiting.Stdout, waiting.Stderr = out, errOut
		Expect(waiting.Start()).To(Succeed())
		Eventually(errOut.String).Should(SatisfyAll(ContainSubstring(`Queued: Redrive "first"`), MatchRegexp(
			`Redrive "first" must end first \(\d+ of 100 moved.*\n  kubectl warren dlq follow first --namespace `+w.Namespace+"\n")))
		Expect(w.warren("dlq", "cancel", "redrive/first")).To(HaveField("Code", 0))
		Expect(waiting.Wait()).To(Succeed())
		Expect(out.String()).To(HavePrefix("purge.messaging.warren.dev/orders-"))
		Expect(w.warren("__complete", "dlq", "purge", "").Out).To(HavePrefix("orders\n"))
	})
})
