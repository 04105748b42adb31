package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Flux", Ordered, ContinueOnFailure, func() {
	BeforeAll(startFlux)

	itDeliversSamples(flux{})
	itDelivers(flux{})
})

// startFlux runs the source-controller and the kustomize-controller.
func startFlux() {
	GinkgoHelper()
	for _, controller := range []string{"source-controller", "kustomize-controller"} {
		kube.Kubectl("apply", "--server-side", "--filename", filepath.Join(fluxModule(controller), "config", "crd", "bases"))
	}
	kube.Kubectl("create", "namespace", "flux-system")
	storage := freeAddress()
	startFluxController("source-controller", "--storage-path="+GinkgoT().TempDir(), "--storage-addr="+storage, "--storage-adv-addr="+storage)
	startFluxController("kustomize-controller")
}

// fluxModule is the folder that has the source of a controller of Flux in the version that hack/flux pins.
func fluxModule(name string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/fluxcd/"+name)
	command.Dir = filepath.Join(Checkout, "hack", "flux")
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	folder, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "find the module of %s", name)
	return strings.TrimSpace(string(folder))
}

// startFluxController runs a controller until the container ends.
func startFluxController(name string, flags ...string) {
	GinkgoHelper()
	command := exec.Command(filepath.Join(Checkout, "hack", "tool.sh"), append([]string{
		name, "--metrics-addr=0", "--health-addr=" + freeAddress(), "--enable-leader-election=false", "--interval-jitter-percentage=0",
	}, flags...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kube.KubeConfig, "RUNTIME_NAMESPACE=flux-system", "TMPDIR="+GinkgoT().TempDir())
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	process := Run(command)
	DeferCleanup(process.Stop)
}

// freeAddress is an address that nobody listens at.
func freeAddress() string {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// flux delivers by a GitRepository and a Kustomization in the namespace that they deliver to.
type flux struct{}

func (flux) Deliver(w *world, folder string) delivery {
	GinkgoHelper()
	k := &kustomization{world: w, name: "messaging"}
	if folder != "." {
		k.name = folder
	}
	w.applyFlux("source.toolkit.fluxcd.io/v1", "GitRepository", "apps", map[string]any{
		"url": w.URL, "ref": map[string]any{"branch": branch}, "interval": "1s",
	})
	w.applyFlux("kustomize.toolkit.fluxcd.io/v1", "Kustomization", k.name, map[string]any{
		"sourceRef": map[string]any{"kind": "GitRepository", "name": "apps"}, "path": "./" + folder, "targetNamespace": w.Namespace,
		"interval": "5s", "retryInterval": "2s", "timeout": "1m", "wait": true, "prune": true, "deletionPolicy": "WaitForTermination",
	})
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(kube.Delete(ctx, k.object()))).To(Succeed())
		gone(k)
	})
	return k
}

func (w *world) applyFlux(apiVersion, kind, name string, spec map[string]any) {
	GinkgoHelper()
	w.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}})
}

// kustomization is a Kustomization of Flux.
type kustomization struct {
	*world

	name string
}

func (k *kustomization) Healthy(revision string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionTrue, "ReconciliationSucceeded", revision)
	Expect(k.read().lastApplied()).To(HaveSuffix(revision))
}

func (k *kustomization) Unhealthy(revision, name, message string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionFalse, "HealthCheckFailed", fmt.Sprintf("ConsumerQueue/%s/%s status: 'Failed'", k.Namespace, name))
	Expect(k.read().lastAttempted()).To(HaveSuffix(revision))
	Expect(k.Get(name)).To(SatisfyAll(BeCurrent(), Message(ContainSubstring(message))))
}

func (k *kustomization) Refused(revision, message string) {
	GinkgoHelper()
	k.eventually(metav1.ConditionFalse, "ReconciliationFailed", message)
	Expect(k.read().lastAttempted()).To(HaveSuffix(revision))
}

func (k *kustomization) eventually(ready metav1.ConditionStatus, reason, message string) {
	GinkgoHelper()
	Eventually(func() string {
		found := k.read().ready()
		return fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message)
	}).WithTimeout(deadline.For(20 * time.Second)).Should(SatisfyAll(HavePrefix("%s %s: ", ready, reason), ContainSubstring(message)))
}

func (k *kustomization) Compare() {
	GinkgoHelper()
	now := time.Now().Format(time.RFC3339Nano)
	kube.Kubectl("annotate", "--overwrite", "--namespace", k.Namespace, "kustomization", k.name, "reconcile.fluxcd.io/requestedAt="+now)
	Eventually(func() string { return k.read().Status.LastHandledReconcileAt }).Should(Equal(now))
}

func (k *kustomization) Delete() {
	GinkgoHelper()
	Expect(kube.Delete(ctx(), k.object())).To(Succeed())
}

func (k *kustomization) IsGone() bool {
	return apierrors.IsNotFound(kube.Get(context.Background(), client.ObjectKeyFromObject(k.object()), k.object()))
}

func (k *kustomization) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("kustomize.toolkit.fluxcd.io/v1")
	object.SetKind("Kustomization")
	object.SetNamespace(k.Namespace)
	object.SetName(k.name)
	return object
}

func (k *kustomization) read() kustomizationView {
	GinkgoHelper()
	object := k.object()
	Expect(kube.Get(ctx(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	text, err := object.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	view := kustomizationView{}
	Expect(json.Unmarshal(text, &view)).To(Succeed())
	return view
}

// kustomizationView is what the tests read of a Kustomization.
type kustomizationView struct {
	Status struct {
		Conditions             []metav1.Condition
		LastAppliedRevision    string
		LastAttemptedRevision  string
		LastHandledReconcileAt string
	}
}

func (v kustomizationView) lastApplied() string   { return v.Status.LastAppliedRevision }
func (v kustomizationView) lastAttempted() string { return v.Status.LastAttemptedRevision }

func (v kustomizationView) ready() metav1.Condition {
	if found := meta.FindStatusCondition(v.Status.Conditions, "Ready"); found != nil {
		return *found
	}
	return metav1.Condition{}
}
