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

// cluster is an API server of its own.
type cluster struct {
	*APIServer

	// scraper and stranger are tokens of one who may read metrics and of one who may not.
	scraper, stranger string
	// writesContracts says that config/contract is installed.
	writesContracts bool
}

// startCluster starts an API server that is stopped with the suite or container. It has RBAC, as envtest's always have, and
// no CRDs: they come with the manifests. Without WatchList, a beta feature that is on since Kubernetes 1.34, clients list and
// then watch as they did before: that takes the permissions that they need with either. Functions may change the environment before.
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

// token asks for a token of a ServiceAccount, as the kubelet does for a pod.
func (c *cluster) token(namespace, serviceAccount string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, serviceAccount
	request := &authenticationv1.TokenRequest{}
	Expect(c.SubResource("token").Create(ctx(), account, request)).To(Succeed())
	return request.Status.Token
}

// addScrapers makes two ServiceAccounts, and gives one of them the role that docs/installation.md names.
func (c *cluster) addScrapers() {
	GinkgoHelper()
	c.Kubectl("create", "namespace", "monitoring")
	for _, name := range []string{"scraper", "stranger"} {
		c.Kubectl("create", "serviceaccount", "--namespace=monitoring", name)
	}
	c.Kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=warren-metrics-reader", "--serviceaccount=monitoring:scraper")
	c.scraper, c.stranger = c.token("monitoring", "scraper"), c.token("monitoring", "stranger")
}

// restoreCRDs applies CRDs that a spec has deleted, before what is left over is cleared.
func (c *cluster) restoreCRDs() {
	GinkgoHelper()
	Eventually(func() error {
		_, err := c.TryKubectl("apply", "--server-side", "-k", filepath.Join(config, "crd"))
		return err
	}).Should(Succeed())
	Eventually(func() error { return c.List(context.Background(), &v1alpha1.ConsumerQueueList{}) }).Should(Succeed())
	Eventually(func() error { return c.List(context.Background(), &v1alpha1.BrokerConnectionList{}) }).Should(Succeed())
}
