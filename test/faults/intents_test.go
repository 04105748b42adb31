package faults

import (
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("New ConsumerQueues", func() {
	It("are written twice and have one Event from their creation until they are Ready", func() {
		w := newWorld(shared)
		startManager(w)
		w.Queue("steady", ordinary) // after this, the BrokerConnection has its finalizer
		w.settled(1)
		// A busy broker may not answer in time. Then Warren opens a new connection, and writes further statuses and Events.
		const connections = 2 // for changes and for events
		Eventually(w.amqp.Accepted).Should(BeNumerically(">=", connections))
		opened := w.amqp.Accepted()
		unlessItFailed := func(expected matcher) matcher {
			return Or(expected, WithTransform(func(any) int { return w.amqp.Accepted() }, BeNumerically(">", opened)))
		}
		counts := w.countWrites()
		names := w.Queues("orders", 20, ordinary)
		w.settled(21)
		perQueue := func() map[string]int {
			of := counts.of()
			delete(of, "BrokerConnection/default")
			return of
		}
		want := map[string]int{}
		for _, name := range names {
			want["ConsumerQueue/"+name] = 2
		}
		Eventually(perQueue).Should(unlessItFailed(Equal(want)))
		Consistently(perQueue).WithTimeout(3 * time.Second).Should(unlessItFailed(Equal(want)))
		for _, name := range names {
			w.EventuallyReasons(name, unlessItFailed(Equal([]string{"Declared"})))
		}

		By("keeping the annotation when a user applies another spec")
		before := w.Get(names[0]).Annotations[v1alpha1.IntentsAnnotation]
		Expect(before).NotTo(BeEmpty())
		w.Queue(names[0], `{retry: {delayTiers: [{delay: 1s}, {delay: 2s}]}}`)
		w.Ready(names[0])
		Expect(w.Get(names[0]).Annotations).To(HaveKeyWithValue(v1alpha1.IntentsAnnotation, before))
		five := unlessItFailed(HaveKeyWithValue("ConsumerQueue/"+names[0], 5)) // the user's writes, the intents and the status
		Eventually(counts.of).Should(five)
		Consistently(counts.of).WithTimeout(time.Second).Should(five)
	})
})

var _ = Describe("A manager that is killed between its intents and the status", Long, func() {
	for _, moment := range []string{"before anything is declared", "while much is declared"} {
		It("leaves no object behind that the next one does not know: "+moment, ExtendedUnless(moment == "while much is declared"), func() {
			moments := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1)) // reproducible with the seed of the run
			w := newWorld(shared)
			running := startManager(w)
			w.Queue("steady", ordinary)
			w.settled(1)
			var stay, edited, deleted []string
			for attempt := 1; ; attempt++ {
				w.amqp.Hold()
				stay, edited, deleted = w.Queues("stays", 2, patient), w.Queues("edited", 3, patient), w.Queues("deleted", 3, patient)
				if w.waitsForBroker() {
					break
				}
				Expect(attempt).To(BeNumerically("<", 5), "attempts")
				w.amqp.Release()
				w.Delete(slices.Concat(stay, edited, deleted)...)
				w.settled(1)
			}
			if moment == "while much is declared" {
				some := 1 + moments.IntN(12)
				w.amqp.Release()
				Eventually(func() int { return len(w.VHost.Definitions().Queues) }).WithPolling(5 * time.Millisecond).
					Should(BeNumerically(">", 3+some))
				running.Kill()
			} else {
				running.Kill()
				Expect(w.intending()).To(HaveLen(4))
				w.amqp.Cut()
				w.amqp.Release()
			}

			By("editing and deleting some while no manager runs")
			for _, name := range edited {
				w.Queue(name, `{retry: {policy: None}}`)
			}
			w.Delete(deleted...)
			startManager(w)
			Eventually(func() int { return len(w.All()) }).WithTimeout(deadline.For(time.Minute)).Should(Equal(1 + len(stay) + len(edited)))
			w.settled(1 + len(stay) + len(edited))
			w.ExpectExactly()
			w.ConsistentlyNoEvents("Retained")
		})
	}
})

// waitsForBroker reports whether half of the workers, which declare at the same time, have written their intents and wait for the
// broker. They wait for ten seconds, which a busy machine may spend before the first intents.
func (w *world) waitsForBroker() bool {
	return NewGomega(func(string, ...int) {}).Eventually(w.intending).WithTimeout(deadline.For(1500 * time.Millisecond)).Should(HaveLen(4))
}

// intending returns the ConsumerQueues with intents whose status was not written yet.
func (w *world) intending() (names []string) {
	GinkgoHelper()
	for _, cq := range w.All() {
		if cq.Annotations[v1alpha1.IntentsAnnotation] != "" && cq.Status.QueueName == "" {
			names = append(names, cq.Name)
		}
	}
	return names
}

var _ = Describe("Outdated intents", func() {
	It("are not used after a lost status or in a copied annotation, so that objects of others stay foreign", Extended, func() {
		w := newWorld(shared)
		running := startManager(w)
		w.Queue("steady", ordinary)
		w.settled(1)
		names := []string{"emptied", "removed", "replaced"}
		for _, name := range names {
			w.Queue(name, patient)
		}
		w.settled(4)
		Expect(namesOf(w.VHost.Definitions())).To(ContainElement("emptied.retry.30s"))
		for _, name := range names {
			w.Queue(name, `{retry: {policy: None}}`)
		}
		Eventually(func() []string { return namesOf(w.VHost.Definitions()) }).WithTimeout(deadline.For(time.Minute)).
			ShouldNot(ContainElement(HaveSuffix(".retry.30s")))
		w.settled(4)
		running.Stop()

		By("losing the status in several ways, and copying an annotation to a new resource")
		for _, name := range names {
			w.VHost.DeclareQueue(name+".retry.30s", map[string]any{"x-queue-type": "quorum"})
		}
		copied := &v1alpha1.ConsumerQueue{Spec: w.Get("emptied").Spec}
		copied.Namespace, copied.Name, copied.Annotations = w.Namespace, "copied", w.Get("emptied").Annotations
		Expect(kube.Create(ctx(), copied)).To(Succeed())
		w.loseStatus(names[0], names[1], names[2])

		startManager(w)
		w.settled(5)
		for _, name := range append(names, "copied") {
			Consistently(w.Get).WithArguments(name).WithTimeout(time.Second).ShouldNot(
				HaveField("Status.Topology", ContainElement(HaveField("Name", HaveSuffix(".retry.30s")))), name)
		}
		w.Delete("steady", "copied", "emptied", "removed", "replaced")
		Eventually(w.All).WithTimeout(deadline.For(time.Minute)).Should(BeEmpty())
		Expect(namesOf(w.VHost.Definitions())).To(ConsistOf("emptied.retry.30s", "removed.retry.30s", "replaced.retry.30s"))
	})
})

// loseStatus removes the status of three ConsumerQueues in different ways.
func (w *world) loseStatus(emptied, removed, replaced string) {
	GinkgoHelper()
	cq := w.Get(emptied)
	cq.Status = v1alpha1.ConsumerQueueStatus{}
	Expect(kube.Status().Update(ctx(), cq)).To(Succeed())
	kube.Kubectl("patch", "--namespace="+w.Namespace, "consumerqueue", removed, "--subresource=status", "--type=merge", `--patch={"status":null}`)
	cq = w.Get(replaced)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cq)
	Expect(err).NotTo(HaveOccurred())
	delete(content, "status")
	whole := &unstructured.Unstructured{Object: content}
	whole.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ConsumerQueue"))
	Expect(kube.Status().Update(ctx(), whole)).To(Succeed())
	for _, name := range []string{emptied, removed, replaced} {
		cq = w.Get(name)
		Expect(cq.Annotations).To(HaveKey(v1alpha1.IntentsAnnotation), name)
		Expect(cq.Status.Topology).To(BeEmpty(), name)
	}
}

func namesOf(definitions brokers.Definitions) (names []string) {
	for _, queue := range definitions.Queues {
		names = append(names, queue.Name)
	}
	return names
}
