package gitops

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/gitenv"
)

// argoCD delivers with Applications that compare and apply in one of several modes.
type argoCD struct {
	serverSideDiff, serverSideApply bool
}

func (by argoCD) String() string {
	return fmt.Sprintf("ServerSideDiff=%t, ServerSideApply=%t", by.serverSideDiff, by.serverSideApply)
}

var _ = Describe("Argo CD", Ordered, ContinueOnFailure, func() {
	BeforeAll(startArgoCD)

	for _, serverSideDiff := range []bool{true, false} {
		for _, serverSideApply := range []bool{true, false} {
			by := argoCD{serverSideDiff, serverSideApply}
			Context("with "+by.String(), func() { itDeliversSamples(by) })
		}
	}
	itDelivers(argoCD{serverSideDiff: true, serverSideApply: true})

	BeforeAll(func() { argoCDProgram = ToolScript("argocd") })

	for _, serverSide := range []bool{true, false} {
		by := argoCD{serverSide, serverSide}
		It("keeps changes by actions, which are not in Git, with "+by.String(), func() {
			w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{}`)})
			delivered := d.(application)
			w.act("reconcile")
			Eventually(func() string { return w.Get("orders").Status.LastHandledReconcileAt }).ShouldNot(BeEmpty())
			delivered.settled("Healthy")
			w.act("suspend")
			delivered.settled("Suspended")
			w.act("resume")
			delivered.settled("Healthy")
			w.act("suspend")
			delivered.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{suspend: false}`)}))
		})
	}
})

// application is a namespaced name.
type application client.ObjectKey

// applicationStatus is the part of an Application's status that the tests read.
type applicationStatus struct {
	Sync struct {
		Status   string `json:"status"`
		Revision string `json:"revision"`
	} `json:"sync"`
	Health     health `json:"health"`
	Conditions []struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"conditions"`
	Resources []struct {
		Kind   string `json:"kind"`
		Name   string `json:"name"`
		Status string `json:"status"`
		Health health `json:"health"`
	} `json:"resources"`
}

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// Deliver creates an Application with automated sync, self-heal and prune, whose deletion deletes its resources.
func (by argoCD) Deliver(w *world, folder string) delivery {
	GinkgoHelper()
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{
			"namespace": "argocd", "generateName": "messaging-",
			"finalizers":  []any{"resources-finalizer.argocd.argoproj.io"},
			"annotations": map[string]any{"argocd.argoproj.io/compare-options": fmt.Sprintf("ServerSideDiff=%t", by.serverSideDiff)},
		},
		"spec": map[string]any{
			"project":     "default",
			"source":      map[string]any{"repoURL": w.URL, "path": folder, "targetRevision": Branch},
			"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": w.Namespace},
			"syncPolicy": map[string]any{
				"automated":   map[string]any{"prune": true, "selfHeal": true},
				"syncOptions": []any{fmt.Sprintf("ServerSideApply=%t", by.serverSideApply)},
			},
		},
	}}
	Expect(kube.Create(ctx(), made)).To(Succeed())
	a := application(client.ObjectKeyFromObject(made))
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(kube.Delete(ctx, made))).To(Succeed())
		gone(a)
	})
	return a
}

func (a application) Healthy(revision string) {
	GinkgoHelper()
	a.Compare()
	Eventually(a.status).WithTimeout(deadline.For(time.Minute)).Should(SatisfyAll(
		HaveField("Sync.Revision", revision), HaveField("Sync.Status", "Synced"), HaveField("Health.Status", "Healthy"),
		HaveField("Resources", HaveEach(HaveField("Status", "Synced")))))
}

func (a application) Unhealthy(revision, name, message string) {
	GinkgoHelper()
	a.Compare()
	Eventually(a.status).Should(SatisfyAll(
		HaveField("Sync.Revision", revision), HaveField("Sync.Status", "Synced"), HaveField("Health.Status", "Degraded"),
		HaveField("Resources", ContainElement(SatisfyAll(
			HaveField("Kind", "ConsumerQueue"), HaveField("Name", name),
			HaveField("Health.Status", "Degraded"), HaveField("Health.Message", ContainSubstring(message)))))))
}

// Refused waits until Argo CD reports the message, as a ComparisonError or a SyncError.
func (a application) Refused(revision, message string) {
	GinkgoHelper()
	a.Compare()
	Eventually(a.status).Should(SatisfyAll(
		HaveField("Sync.Revision", revision), HaveField("Sync.Status", Not(Equal("Synced"))),
		HaveField("Conditions", ContainElement(SatisfyAll(
			HaveField("Type", BeElementOf("ComparisonError", "SyncError")), HaveField("Message", ContainSubstring(message)))))))
}

// settled waits until Argo CD has compared again, sees no difference, and reports this health.
func (a application) settled(health string) {
	GinkgoHelper()
	a.Compare()
	Eventually(a.status).Should(SatisfyAll(HaveField("Sync.Status", "Synced"), HaveField("Health.Status", health)))
}

// Compare requests a comparison of Git and cluster. Argo CD removes the annotation when it writes the result.
func (a application) Compare() {
	GinkgoHelper()
	const refresh = "argocd.argoproj.io/refresh"
	kube.Kubectl("annotate", "--namespace", a.Namespace, "application", a.Name, "--overwrite", refresh+"=hard")
	Eventually(func() map[string]string { return a.read().GetAnnotations() }).ShouldNot(HaveKey(refresh))
}

func (a application) Delete() {
	GinkgoHelper()
	Expect(kube.Delete(ctx(), a.object())).To(Succeed())
}

func (a application) IsGone() bool {
	return apierrors.IsNotFound(kube.Get(context.Background(), client.ObjectKey(a), a.object()))
}

func (a application) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("argoproj.io/v1alpha1")
	object.SetKind("Application")
	object.SetNamespace(a.Namespace)
	object.SetName(a.Name)
	return object
}

func (a application) read() *unstructured.Unstructured {
	GinkgoHelper()
	object := a.object()
	Expect(kube.Get(ctx(), client.ObjectKey(a), object)).To(Succeed())
	return object
}

func (a application) status() (status applicationStatus) {
	GinkgoHelper()
	content, _, err := unstructured.NestedMap(a.read().Object, "status")
	Expect(err).NotTo(HaveOccurred())
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)).To(Succeed())
	return status
}
