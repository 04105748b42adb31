package deployment

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// cluster is a private API server.
type cluster struct {
	*APIServer

	// scraper is a token with permission to read metrics, stranger is one without.
	scraper, stranger string
	// writesContracts reports whether config/contract is installed.
	writesContracts bool
}

// startCluster starts an API server that stops with the suite or container. It has RBAC, like every envtest server, and no CRDs:
// the manifests contain them. The beta feature WatchList, on since Kubernetes 1.34, is off. Clients then list and watch, which
// needs all permissions that they need with either setting. change functions may change the environment before.
func startCluster(change ...func(*envtest.Environment)) *cluster {
	GinkgoHelper()
	return &cluster{APIServer: StartAPIServer(append(change, func(environment *envtest.Environment) {
		environment.CRDDirectoryPaths = nil
		environment.ControlPlane.GetAPIServer().Configure().Append("feature-gates", "WatchList=false")
	})...)}
}

func (c *cluster) deployment() *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(c.Get(ctx(), client.ObjectKey{Namespace: system, Name: "warren-controller-manager"}, deployment)).To(Succeed())
	Expect(deployment.Spec.Template.Spec.Containers).To(HaveLen(1))
	return deployment
}

// token requests a token of a ServiceAccount, as the kubelet does for a pod.
func (c *cluster) token(namespace, serviceAccount string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, serviceAccount
	request := &authenticationv1.TokenRequest{}
	Expect(c.SubResource("token").Create(ctx(), account, request)).To(Succeed())
	return request.Status.Token
}

// addScrapers creates two ServiceAccounts. One of them gets the role in docs/monitoring.md.
func (c *cluster) addScrapers() {
	GinkgoHelper()
	c.Kubectl("create", "namespace", "monitoring")
	for _, name := range []string{"scraper", "stranger"} {
		c.Kubectl("create", "serviceaccount", "--namespace=monitoring", name)
	}
	c.Kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=warren-metrics-reader", "--serviceaccount=monitoring:scraper")
	c.scraper, c.stranger = c.token("monitoring", "scraper"), c.token("monitoring", "stranger")
}

// restoreCRDs applies the CRDs that a spec has deleted, before the remaining resources are deleted.
func (c *cluster) restoreCRDs() {
	GinkgoHelper()
	Eventually(func() error {
		_, err := c.TryKubectl("apply", "--server-side", "-k", filepath.Join(config, "crd"))
		return err
	}).Should(Succeed())
	Eventually(func() error { return c.List(context.Background(), &v1alpha1.ConsumerQueueList{}) }).Should(Succeed())
	Eventually(func() error { return c.List(context.Background(), &v1alpha1.BrokerConnectionList{}) }).Should(Succeed())
}
