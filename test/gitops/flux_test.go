package gitops

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/warren-mq/warren/test/gitenv"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Flux", Ordered, ContinueOnFailure, func() {
	BeforeAll(func() { StartFlux(kube) })

	itDeliversSamples(flux{})
	itDelivers(flux{})

	It("accepts the manifests in the documentation", func() {
		kube.Kubectl("create", "namespace", "shop")
		text, err := os.ReadFile(filepath.Join(Checkout, "docs", "gitops.md"))
		Expect(err).NotTo(HaveOccurred())
		_, text, _ = bytes.Cut(text, []byte("\n## Flux\n"))
		text, _, _ = bytes.Cut(text, []byte("\n## "))
		taken := 0
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
			for document := range strings.SplitSeq(string(block[1]), "---\n") {
				if strings.Contains(document, "kind: HelmRelease") {
					continue // the helm-controller does not run here
				}
				path := filepath.Join(GinkgoT().TempDir(), "manifest.yaml")
				Expect(os.WriteFile(path, []byte(document), 0o600)).To(Succeed())
				kube.Kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", path)
				taken++
			}
		}
		Expect(taken).To(Equal(4))
	})

	It("also reverts a field that is not in Git", func() {
		w, d := newDelivery(flux{}, Files{"orders.yaml": ConsumerQueue("orders", `{}`)})
		kube.Kubectl("patch", "consumerqueue", "orders", "--namespace", w.Namespace, "--type=merge", "--patch", `{"spec":{"suspend":true}}`)
		Eventually(func() bool { return w.Get("orders").Spec.Suspend }).Should(BeFalse())
		d.Compare()
		w.Ready("orders")
	})

	It("does not wait for a suspended ConsumerQueue", func() {
		w, d := newDelivery(flux{}, Files{"orders.yaml": ConsumerQueue("orders", `{}`)})
		d.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{suspend: true, retry: {maxAttempts: 9}}`)}))
		w.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"), Condition("Ready", metav1.ConditionTrue, "InSync"))
	})

	It("deletes with force a ConsumerQueue that the API server refuses; with deletionPolicy Retain its queues stay", func() {
		w, d := newDelivery(flux{}, Files{"orders.yaml": ConsumerQueue("orders", `{deletionPolicy: Retain}`)})
		held := w.VHost.Definitions()
		kube.Kubectl("patch", "kustomization.kustomize.toolkit.fluxcd.io", "messaging", "--namespace", w.Namespace, "--type=merge", "--patch", `{"spec":{"force":true}}`)
		w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{deletionPolicy: Retain, retry: {maxAttempts: -1}}`)})
		Eventually(func() bool { return w.Exists("orders") }).Should(BeFalse())
		Expect(w.VHost.Definitions()).To(Equal(held))
		d.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{deletionPolicy: Retain}`)}))
		Expect(w.VHost.Definitions()).To(Equal(held))
	})
})

// flux delivers with a GitRepository and a Kustomization in the target namespace.
type flux struct{}

func (flux) Deliver(w *world, folder string) delivery {
	GinkgoHelper()
	return Deliver(w.World, w.Repository, folder)
}
