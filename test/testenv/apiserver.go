package testenv

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/testenv/controlplane"
)

// crds is the folder of Warren's CRDs.
var crds = filepath.Join(Checkout, "config", "crd", "bases")

// Checkout is the root of the repository: a suite runs in its own folder, which is two below.
const Checkout = "../.."

// APIServer is a kube-apiserver as its administrator uses it: with a client that has no cache, and with kubectl.
type APIServer struct {
	client.WithWatch
	*controlplane.Server
}

// StartAPIServer starts a server of the spec's, the container's or the suite's own that has Warren's CRDs, and stops the
// server with it. Environment may stop and restart the server in between. Functions may change the environment before.
func StartAPIServer(change ...func(*envtest.Environment)) *APIServer {
	GinkgoHelper()
	server, err := controlplane.Start(GinkgoT().TempDir(), crds, change...)
	return use(server, err)
}

// SharedAPIServer returns the server that all suites of a run share, for a suite whose managers watch the namespaces of its
// specs alone. Without such a server it starts one.
func SharedAPIServer() *APIServer {
	GinkgoHelper()
	server, err := controlplane.Shared(controlplane.WithOthers, GinkgoT().TempDir(), crds)
	return use(server, err)
}

// ExclusiveAPIServer is SharedAPIServer for a suite whose manager watches all namespaces: no other suite uses the server until
// this one has ended.
func ExclusiveAPIServer() *APIServer {
	GinkgoHelper()
	server, err := controlplane.Shared(controlplane.Alone, GinkgoT().TempDir(), crds)
	s := use(server, err)
	s.removeResources()
	return s
}

// use returns a server for a spec, and stops it with the spec.
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

// removeResources removes what the suites before left: their managers have ended, and cannot remove the finalizers.
func (s *APIServer) removeResources() {
	GinkgoHelper()
	for _, list := range []client.ObjectList{
		&v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}, &v1alpha1.ConsumerQueueList{}, &v1alpha1.BrokerConnectionList{},
	} {
		Expect(s.List(ctx(), list)).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			return removeAtOnce(ctx(), s, item.(client.Object))
		})).To(Succeed())
	}
}

// removeAtOnce deletes a resource whose manager has ended: nothing else removes its finalizers.
func removeAtOnce(ctx context.Context, kube client.Client, object client.Object) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := kube.Patch(ctx, object, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(kube.Delete(ctx, object))
}

// Connect returns the server of a kubeconfig file, which another process of the suite uses already.
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

// ApplyObject owns what is in the object and nothing else, by server-side apply, as Argo CD and Flux do.
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

// Kubectl runs the command as the administrator, and returns its output.
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

// KubectlPath is where kubectl is.
func KubectlPath() string { return controlplane.KubectlPath() }
