package gitops

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

const (
	gitRepositories = "source.toolkit.fluxcd.io/v1"
	kustomizations  = "kustomize.toolkit.fluxcd.io/v1"
)

var _ = Describe("Flux", Ordered, ContinueOnFailure, func() {
	BeforeAll(startFlux)

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
		Expect(taken).To(Equal(3))
	})

	It("also reverts a field that is not in Git", func() {
		w, d := newDelivery(flux{}, files{"orders.yaml": consumerQueue("orders", `{}`)})
		kube.Kubectl("patch", "consumerqueue", "orders", "--namespace", w.Namespace, "--type=merge", "--patch", `{"spec":{"suspend":true}}`)
		Eventually(func() bool { return w.Get("orders").Spec.Suspend }).Should(BeFalse())
		d.Compare()
		w.Ready("orders")
	})

	It("does not wait for a suspended ConsumerQueue", func() {
		w, d := newDelivery(flux{}, files{"orders.yaml": consumerQueue("orders", `{}`)})
		d.Healthy(w.Commit(files{"orders.yaml": consumerQueue("orders", `{suspend: true, retry: {maxAttempts: 9}}`)}))
		w.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"), Condition("Ready", metav1.ConditionTrue, "InSync"))
	})

	It("deletes with force a ConsumerQueue that the API server refuses; with deletionPolicy Retain its queues stay", func() {
		w, d := newDelivery(flux{}, files{"orders.yaml": consumerQueue("orders", `{deletionPolicy: Retain}`)})
		held := w.VHost.Definitions()
		kube.Kubectl("patch", "kustomization.kustomize.toolkit.fluxcd.io", "messaging", "--namespace", w.Namespace, "--type=merge", "--patch", `{"spec":{"force":true}}`)
		w.Commit(files{"orders.yaml": consumerQueue("orders", `{deletionPolicy: Retain, retry: {maxAttempts: -1}}`)})
		Eventually(func() bool { return w.Exists("orders") }).Should(BeFalse())
		Expect(w.VHost.Definitions()).To(Equal(held))
		d.Healthy(w.Commit(files{"orders.yaml": consumerQueue("orders", `{deletionPolicy: Retain}`)}))
		Expect(w.VHost.Definitions()).To(Equal(held))
	})
})

// startFlux runs the source-controller and the kustomize-controller.
func startFlux() {
	GinkgoHelper()
	for _, controller := range []string{"source-controller", "kustomize-controller"} {
		kube.Kubectl("apply", "--server-side", "--filename", filepath.Join(ModuleFolder("flux", "github.com/fluxcd/"+controller), "config", "crd", "bases"))
	}
	kube.Kubectl("create", "namespace", "flux-system")
	storage := FreeAddress()
	startFluxController("source-controller", "--storage-path="+GinkgoT().TempDir(), "--storage-addr="+storage, "--storage-adv-addr="+storage)
	startFluxController("kustomize-controller", "--concurrent=20") // each waiting Kustomization occupies a worker
}

// startFluxController runs a controller until the container ends.
func startFluxController(name string, flags ...string) {
	GinkgoHelper()
	command := exec.Command(toolScript(name), append([]string{
		name, "--metrics-addr=0", "--health-addr=" + FreeAddress(), "--enable-leader-election=false",
	}, flags...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kube.KubeConfig, "RUNTIME_NAMESPACE=flux-system", "TMPDIR="+GinkgoT().TempDir())
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	DeferCleanup(Run(command).Stop)
}

// flux delivers with a GitRepository and a Kustomization in the target namespace.
type flux struct{}

func (flux) Deliver(w *world, folder string) delivery {
	GinkgoHelper()
	name := "messaging"
	if folder != "." {
		name = folder
	}
	source := w.applyFlux(gitRepositories, "GitRepository", "apps", map[string]any{
		"url": w.URL, "ref": map[string]any{"branch": branch}, "interval": "2s",
	})
	k := &kustomization{w, w.applyFlux(kustomizations, "Kustomization", name, map[string]any{
		"sourceRef": map[string]any{"kind": "GitRepository", "name": "apps"}, "path": "./" + folder, "targetNamespace": w.Namespace,
		"interval": "10s", "retryInterval": "5s", "timeout": "30s", "wait": true, "prune": true, "deletionPolicy": "WaitForTermination",
	})}
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(kube.Delete(ctx, k.object))).To(Succeed())
		gone(k)
		Expect(client.IgnoreNotFound(kube.Delete(ctx, source))).To(Succeed())
	})
	return k
}

func (w *world) applyFlux(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": w.Namespace}, "spec": spec,
	}}
	w.Apply(object)
	return object
}

// kustomization is a Kustomization of Flux.
type kustomization struct {
	*world

	object *unstructured.Unstructured
}

// Healthy finds the revision in the message of the condition.
func (k *kustomization) Healthy(revision string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionTrue, "ReconciliationSucceeded", revision)
}

// Unhealthy finds the ConsumerQueue in the message of the condition, and Warren's message in the ConsumerQueue.
func (k *kustomization) Unhealthy(revision, name, message string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionFalse, "HealthCheckFailed", fmt.Sprintf("ConsumerQueue/%s/%s status: 'Failed'", k.Namespace, name))
	Eventually(k.status).Should(HaveField("LastAttemptedRevision", HaveSuffix(revision)))
	k.Eventually(name, Message(ContainSubstring(message)))
}

func (k *kustomization) Refused(revision, message string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionFalse, "ReconciliationFailed", message)
	Eventually(k.status).Should(HaveField("LastAttemptedRevision", HaveSuffix(revision)))
}

// eventually waits for the Ready condition.
func (k *kustomization) eventually(ready metav1.ConditionStatus, reason, message string) {
	GinkgoHelper()
	Eventually(func() string {
		found := meta.FindStatusCondition(k.status().Conditions, "Ready")
		if found == nil {
			return "absent"
		}
		return fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message)
	}).Should(SatisfyAll(HavePrefix("%s %s: ", ready, reason), ContainSubstring(message)))
}

// Compare is `flux reconcile kustomization`.
func (k *kustomization) Compare() {
	GinkgoHelper()
	now := time.Now().Format(time.RFC3339Nano)
	kube.Kubectl("annotate", "--overwrite", "--namespace="+k.Namespace, "kustomization.kustomize.toolkit.fluxcd.io", k.object.GetName(),
		"reconcile.fluxcd.io/requestedAt="+now)
	Eventually(func() string { return k.status().LastHandledReconcileAt }).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(now))
}

func (k *kustomization) Delete() {
	GinkgoHelper()
	Expect(kube.Delete(ctx(), k.object)).To(Succeed())
}

func (k *kustomization) IsGone() bool {
	return apierrors.IsNotFound(kube.Get(context.Background(), client.ObjectKeyFromObject(k.object), k.object.DeepCopy()))
}

// kustomizationStatus is the part of a Kustomization's status that the tests read.
type kustomizationStatus struct {
	Conditions             []metav1.Condition `json:"conditions"`
	LastAttemptedRevision  string             `json:"lastAttemptedRevision"`
	LastHandledReconcileAt string             `json:"lastHandledReconcileAt"`
}

func (k *kustomization) status() kustomizationStatus {
	GinkgoHelper()
	object := k.object.DeepCopy()
	Expect(kube.Get(ctx(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	found := struct {
		Status kustomizationStatus `json:"status"`
	}{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &found)).To(Succeed())
	return found.Status
}
