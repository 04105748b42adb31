package gitops

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/deadline"
)

// argoCD delivers by Applications that compare and apply in one of several ways.
type argoCD struct {
	serverSideDiff, serverSideApply bool
}

func (a argoCD) String() string {
	return fmt.Sprintf("ServerSideDiff=%t, ServerSideApply=%t", a.serverSideDiff, a.serverSideApply)
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
})

// application is a namespaced name.
type application client.ObjectKey

// applicationStatus is what the tests read of an Application's status.
type applicationStatus struct {
	ReconciledAt string `json:"reconciledAt"`
	Sync         struct {
		Status   string `json:"status"`
		Revision string `json:"revision"`
	} `json:"sync"`
	Health         health `json:"health"`
	OperationState struct {
		Phase      string `json:"phase"`
		Message    string `json:"message"`
		SyncResult struct {
			Revision string `json:"revision"`
		} `json:"syncResult"`
	} `json:"operationState"`
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

// Deliver makes an Application that syncs by itself, mends what is changed by hand, prunes, and is deleted with what it made.
func (a argoCD) Deliver(w *world, folder string) delivery {
	GinkgoHelper()
	made := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "argocd", "generateName": "messaging-",
			"finalizers":  []any{"resources-finalizer.argocd.argoproj.io"},
			"annotations": map[string]any{"argocd.argoproj.io/compare-options": fmt.Sprintf("ServerSideDiff=%t", a.serverSideDiff)},
		},
		"spec": map[string]any{
			"project":     "default",
			"source":      map[string]any{"repoURL": w.URL, "path": folder, "targetRevision": branch},
			"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": w.Namespace},
			"syncPolicy": map[string]any{
				"automated":   map[string]any{"prune": true, "selfHeal": true},
				"syncOptions": []any{fmt.Sprintf("ServerSideApply=%t", a.serverSideApply)},
			},
		},
	}}
	made.SetGroupVersionKind(applicationKind)
	Expect(kube.Create(ctx(), made)).To(Succeed())
	return application(client.ObjectKeyFromObject(made))
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

func (a application) Refused(revision, message string) {
	GinkgoHelper()
	a.Compare()
	Eventually(a.status).Should(SatisfyAll(
		HaveField("OperationState.SyncResult.Revision", revision), HaveField("OperationState.Phase", "Failed"),
		HaveField("OperationState.Message", ContainSubstring(message))))
}

// Compare asks for a look at Git and cluster; Argo CD takes the annotation away when it begins.
func (a application) Compare() {
	GinkgoHelper()
	before := a.status().ReconciledAt
	kube.Kubectl("annotate", "--namespace", a.Namespace, "application", a.Name, "--overwrite", "argocd.argoproj.io/refresh=hard")
	Eventually(func(g Gomega) {
		app, err := a.read()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(app.GetAnnotations()).NotTo(HaveKey("argocd.argoproj.io/refresh"))
	}).Should(Succeed())
	Eventually(func() string { return a.status().ReconciledAt }).ShouldNot(Equal(before))
}

func (a application) Delete() {
	GinkgoHelper()
	app, err := a.read()
	Expect(err).NotTo(HaveOccurred())
	Expect(kube.Delete(ctx(), app)).To(Succeed())
}

func (a application) IsGone() bool {
	_, err := a.read()
	return apierrors.IsNotFound(err)
}

var applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}

func (a application) read() (*unstructured.Unstructured, error) {
	app := &unstructured.Unstructured{}
	app.SetGroupVersionKind(applicationKind)
	return app, kube.Get(ctx(), client.ObjectKey(a), app)
}

func (a application) status() (status applicationStatus) {
	GinkgoHelper()
	app, err := a.read()
	Expect(err).NotTo(HaveOccurred())
	content, _, err := unstructured.NestedMap(app.Object, "status")
	Expect(err).NotTo(HaveOccurred())
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)).To(Succeed())
	return status
}
