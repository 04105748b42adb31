package testenv

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/test/testenv/controlplane"
)

// crds is the directory of Warren's CRDs.
var crds = filepath.Join(Checkout, "config", "crd", "bases")

// Checkout is the root of the repository, two levels above each suite.
const Checkout = "../.."

// APIServer is a kube-apiserver with an administrator's client, which has no cache, and kubectl.
type APIServer struct {
	client.WithWatch
	*controlplane.Server
}

// StartAPIServer starts a server with Warren's CRDs, and stops it when the spec, container or suite ends. Environment can stop
// and restart it. change functions may change the environment before the start.
func StartAPIServer(change ...func(*envtest.Environment)) *APIServer {
	GinkgoHelper()
	server, err := controlplane.Start(GinkgoT().TempDir(), crds, change...)
	return use(server, err)
}

// SharedAPIServer returns the server that all suites of a run share, for a suite whose managers watch only the namespaces of its
// specs. If there is no such server, it starts one.
func SharedAPIServer() *APIServer {
	GinkgoHelper()
	server, err := controlplane.Shared(GinkgoT().TempDir(), crds)
	return use(server, err)
}

// use returns a server for a spec, and stops the server when the spec ends.
func use(server *controlplane.Server, err error) *APIServer {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if err := server.Stop(); err != nil {
			GinkgoLogr.Info("The API server or etcd had to be killed", "reason", err.Error())
		}
	})
	return clientOf(server)
}

// deleteWithFinalizers deletes a resource and its finalizers, because its manager has ended.
func deleteWithFinalizers(ctx context.Context, kube client.Client, object client.Object) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := kube.Patch(ctx, object, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(kube.Delete(ctx, object))
}

// Connect returns the server of a kubeconfig file that another process of the suite uses.
func Connect(kubeConfig string) *APIServer {
	GinkgoHelper()
	server, err := controlplane.Connect(kubeConfig)
	Expect(err).NotTo(HaveOccurred())
	return clientOf(server)
}

func clientOf(server *controlplane.Server) *APIServer {
	GinkgoHelper()
	kube, err := server.Client()
	Expect(err).NotTo(HaveOccurred())
	return &APIServer{kube, server}
}

// ApplyObject applies an object by server-side apply, as Argo CD and Flux do, so that it owns only the fields of the object.
func (s *APIServer) ApplyObject(object client.Object) {
	GinkgoHelper()
	kind, err := s.GroupVersionKindFor(object)
	Expect(err).NotTo(HaveOccurred())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	delete(content, "status")
	applied := &unstructured.Unstructured{Object: content}
	applied.SetGroupVersionKind(kind)
	Expect(s.Apply(ctx(), client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner("gitops"), client.ForceOwnership)).To(Succeed())
}

// Kubectl runs kubectl as the administrator and returns its output. It fails the test if kubectl fails.
func (s *APIServer) Kubectl(args ...string) string {
	GinkgoHelper()
	output, err := s.TryKubectl(args...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// TryKubectl is Kubectl for a command that may fail.
func (s *APIServer) TryKubectl(args ...string) (string, error) {
	return s.Server.Kubectl(context.Background(), "", args...)
}

// KubectlPath returns the path of kubectl.
func KubectlPath() string { return controlplane.KubectlPath() }
