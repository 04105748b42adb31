package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// configMap reads the contract's ConfigMap. Its name is empty if there is none.
func (w *world) configMap(name string) *corev1.ConfigMap {
	GinkgoHelper()
	found := &corev1.ConfigMap{}
	Expect(client.IgnoreNotFound(kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: name}, found))).To(Succeed())
	return found
}

// contractOf returns the contract in a ConfigMap.
func contractOf(found *corev1.ConfigMap) contract.Contract {
	GinkgoHelper()
	kept, err := contract.Parse([]byte(found.Data["contract.json"]))
	Expect(err).NotTo(HaveOccurred())
	return kept
}

var _ = Describe("spec.contract", func() {
	It("writes a ConfigMap that a consumer can mount", func() {
		w := newWorld(newest)
		w.Queue("orders", `{contract: {configMap: orders-contract}}`)
		cq := w.Ready("orders")
		found := w.configMap("orders-contract")
		Expect(cq.Status.Contract.ConfigMap).To(Equal("orders-contract"))
		Expect(metav1.IsControlledBy(found, cq)).To(BeTrue())
		want := contract.Default("orders")
		want.VirtualHost, want.ConfigMap = w.VHost.Name, w.Namespace+"/orders-contract"
		Expect(contractOf(found)).To(Equal(want))

		By("mounting the ConfigMap beside a Secret, as a projected volume does")
		folder := GinkgoT().TempDir()
		mounted := map[string]string{"username": newest.Username, "password": newest.Password}
		maps.Copy(mounted, found.Data)
		for key, text := range mounted {
			Expect(os.WriteFile(filepath.Join(folder, key), []byte(text), 0o600)).To(Succeed())
		}
		handled := make(chan string, 1)
		orders, err := consumer.New(consumer.NewConn(consumer.Dir(folder)), contract.File(filepath.Join(folder, "contract.json")),
			func(_ context.Context, m *consumer.Message[[]byte]) error {
				handled <- string(m.Body)
				return nil
			})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx())
		ended := make(chan error, 1)
		go func() { ended <- orders.Run(running) }()
		w.VHost.Publish("", "orders", "one")
		Eventually(handled).Should(Receive(Equal("one")))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("removes a tier from the ConfigMap first, and from the broker three minutes later", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{contract: {configMap: orders-contract}, retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`)
		before := w.Ready("orders").Status.Contract
		w.Queue("orders", `{contract: {configMap: orders-contract}, retry: {delayTiers: [{delay: 20s}, {delay: 30s}]}}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"), BeCurrent(),
			HaveField("Status.Advisories", ConsistOf(HaveField("Reason", v1alpha1.AdvisoryReasonContractPending))))
		Expect(cq.Status.Contract.Hash).NotTo(Equal(before.Hash))
		Expect(contractOf(w.configMap("orders-contract")).Tiers).To(HaveExactElements(
			HaveField("RoutingKey", "orders.retry.20s"), HaveField("RoutingKey", "orders.retry.30s")))
		tiers := []string{"orders", "orders.dlq", "orders.retry.10s", "orders.retry.20s", "orders.retry.30s"}
		Consistently(w.queues).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(ConsistOf(tiers))
		Eventually(w.queues).WithTimeout(deadline.For(2 * time.Minute)).Should(ConsistOf("orders", "orders.dlq", "orders.retry.20s", "orders.retry.30s"))
		w.Ready("orders")
	})

	It("does not change a ConfigMap that Warren does not manage, and reports it until it is deleted", func() {
		w := newWorld(newest)
		theirs := &corev1.ConfigMap{Data: map[string]string{"contract.json": "theirs"}}
		theirs.Name = "orders-contract"
		w.Apply(theirs)
		w.Queue("orders", `{contract: {configMap: orders-contract}}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ContractNotWritten"),
			Condition("Stalled", metav1.ConditionTrue, "ContractNotWritten"), Condition("Drifted", metav1.ConditionFalse, "InSync"))
		Expect(cq.Status.Contract).To(BeNil())
		Expect(w.configMap("orders-contract").Data).To(Equal(map[string]string{"contract.json": "theirs"}))
		Expect(kube.Delete(ctx(), w.configMap("orders-contract"))).To(Succeed())
		w.Ready("orders")
		Expect(contractOf(w.configMap("orders-contract")).Queue).To(Equal("orders"))
	})

	It("restores a deleted or edited ConfigMap when the ConsumerQueue is reconciled", func() {
		w := newWorld(newest)
		w.Queue("orders", `{contract: {configMap: orders-contract}}`)
		w.Ready("orders")
		want := w.configMap("orders-contract").Data
		Expect(kube.Delete(ctx(), w.configMap("orders-contract"))).To(Succeed())
		w.request("orders", "deleted")
		Eventually(func() map[string]string { return w.configMap("orders-contract").Data }).Should(Equal(want))
		edited := w.configMap("orders-contract")
		patch := client.MergeFrom(edited.DeepCopy())
		edited.Data = map[string]string{"contract.json": "{}"}
		Expect(kube.Patch(ctx(), edited, patch)).To(Succeed())
		w.request("orders", "edited")
		Eventually(func() map[string]string { return w.configMap("orders-contract").Data }).Should(Equal(want))
	})

	It("retains the ConfigMap when it is removed from the spec", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{contract: {configMap: orders-contract}}`)
		w.Ready("orders")
		w.Queue("orders", `{}`)
		Eventually(func() *v1alpha1.ContractStatus { return w.Get("orders").Status.Contract }).WithTimeout(deadline.For(4 * time.Minute)).Should(BeNil())
		Expect(contractOf(w.configMap("orders-contract")).Queue).To(Equal("orders"))
	})
})
