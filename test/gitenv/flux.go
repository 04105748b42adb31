package gitenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

	fluxNamespace = "flux-system"
)

var fluxControllers = []string{"source-controller", "kustomize-controller"}

// StartFlux installs the CRDs of the source-controller and the kustomize-controller, and runs both as processes until the container
// ends.
func StartFlux(kube *APIServer) {
	GinkgoHelper()
	for _, controller := range fluxControllers {
		kube.Kubectl("apply", "--server-side", "--filename", crdsOfFlux(controller))
	}
	kube.Kubectl("create", "namespace", fluxNamespace)
	storage := FreeAddress()
	startFluxController(kube, "source-controller",
		"--storage-path="+GinkgoT().TempDir(), "--storage-addr="+storage, "--storage-adv-addr="+storage)
	startFluxController(kube, "kustomize-controller", "--concurrent=20") // each waiting Kustomization occupies a worker
}

// RemoveFlux removes what StartFlux installed.
func RemoveFlux(kube *APIServer) {
	GinkgoHelper()
	for _, controller := range fluxControllers {
		kube.Kubectl("delete", "--filename", crdsOfFlux(controller))
	}
	kube.Kubectl("delete", "namespace", fluxNamespace)
}

func crdsOfFlux(controller string) string {
	GinkgoHelper()
	return filepath.Join(ModuleFolder("flux", "github.com/fluxcd/"+controller), "config", "crd", "bases")
}

// startFluxController runs a controller until the container ends.
func startFluxController(kube *APIServer, name string, flags ...string) {
	GinkgoHelper()
	command := exec.Command(ToolScript(name), append([]string{
		name, "--metrics-addr=0", "--health-addr=" + FreeAddress(), "--enable-leader-election=false",
	}, flags...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kube.KubeConfig, "RUNTIME_NAMESPACE="+fluxNamespace, "TMPDIR="+GinkgoT().TempDir())
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	DeferCleanup(Run(command).Stop)
}

// Kustomization is a Kustomization of Flux.
type Kustomization struct {
	*World

	object *unstructured.Unstructured
}

// Deliver makes Flux deliver a folder of a repository to the namespace of a world, with a GitRepository and a Kustomization there. It
// deletes both, with what they delivered, when the test ends.
func Deliver(w *World, r *Repository, folder string) *Kustomization {
	GinkgoHelper()
	name := "messaging"
	if folder != "." {
		name = folder
	}
	source := applyFlux(w, gitRepositories, "GitRepository", "apps", map[string]any{
		"url": r.URL, "ref": map[string]any{"branch": Branch}, "interval": "2s",
	})
	k := &Kustomization{w, applyFlux(w, kustomizations, "Kustomization", name, map[string]any{
		"sourceRef": map[string]any{"kind": "GitRepository", "name": "apps"}, "path": "./" + folder, "targetNamespace": w.Namespace,
		"interval": "10s", "retryInterval": "5s", "timeout": "30s", "wait": true, "prune": true, "deletionPolicy": "WaitForTermination",
	})}
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(w.Kube.Delete(ctx, k.object))).To(Succeed())
		Eventually(k.IsGone).WithTimeout(deadline.For(90 * time.Second)).Should(BeTrue())
		Expect(client.IgnoreNotFound(w.Kube.Delete(ctx, source))).To(Succeed())
	})
	return k
}

func applyFlux(w *World, apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": w.Namespace}, "spec": spec,
	}}
	w.Apply(object)
	return object
}

// Healthy waits until Flux has delivered the revision and reports all objects as healthy.
func (k *Kustomization) Healthy(revision string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionTrue, "ReconciliationSucceeded", revision)
}

// Unhealthy waits until Flux has delivered the revision and names the ConsumerQueue as failed. Warren's message is in the ConsumerQueue.
func (k *Kustomization) Unhealthy(revision, name, message string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionFalse, "HealthCheckFailed", fmt.Sprintf("ConsumerQueue/%s/%s status: 'Failed'", k.Namespace, name))
	Eventually(k.status).Should(HaveField("LastAttemptedRevision", HaveSuffix(revision)))
	k.Eventually(name, Message(ContainSubstring(message)))
}

// Refused waits until Flux reports why the API server refuses the revision.
func (k *Kustomization) Refused(revision, message string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionFalse, "ReconciliationFailed", message)
	Eventually(k.status).Should(HaveField("LastAttemptedRevision", HaveSuffix(revision)))
}

// eventually waits for the Ready condition.
func (k *Kustomization) eventually(ready metav1.ConditionStatus, reason, message string) {
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
func (k *Kustomization) Compare() {
	GinkgoHelper()
	now := time.Now().Format(time.RFC3339Nano)
	k.Kube.Kubectl("annotate", "--overwrite", "--namespace="+k.Namespace, "kustomization.kustomize.toolkit.fluxcd.io", k.object.GetName(),
		"reconcile.fluxcd.io/requestedAt="+now)
	Eventually(func() string { return k.status().LastHandledReconcileAt }).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(now))
}

// Delete deletes the Kustomization with what it delivered, and does not wait.
func (k *Kustomization) Delete() {
	GinkgoHelper()
	Expect(k.Kube.Delete(ctx(), k.object)).To(Succeed())
}

// IsGone reports whether the Kustomization was deleted with what it delivered.
func (k *Kustomization) IsGone() bool {
	return apierrors.IsNotFound(k.Kube.Get(context.Background(), client.ObjectKeyFromObject(k.object), k.object.DeepCopy()))
}

// kustomizationStatus is the part of a Kustomization's status that the tests read.
type kustomizationStatus struct {
	Conditions             []metav1.Condition `json:"conditions"`
	LastAttemptedRevision  string             `json:"lastAttemptedRevision"`
	LastHandledReconcileAt string             `json:"lastHandledReconcileAt"`
}

func (k *Kustomization) status() kustomizationStatus {
	GinkgoHelper()
	object := k.object.DeepCopy()
	Expect(k.Kube.Get(ctx(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	found := struct {
		Status kustomizationStatus `json:"status"`
	}{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &found)).To(Succeed())
	return found.Status
}
