package deployment

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// cluster is an API server of its own, and its administrator.
type cluster struct {
	client.Client

	config     *rest.Config
	kubeconfig string
	// scraper and stranger are tokens of one who may read metrics and of one who may not.
	scraper, stranger string
}

// startCluster starts an API server that is stopped with the suite or container. It has RBAC, as envtest's always have.
// Without WatchList, a beta feature that is on since Kubernetes 1.34, clients list and then watch as they did before: that
// takes the permissions that they need with either.
func startCluster() *cluster {
	GinkgoHelper()
	environment := &envtest.Environment{}
	environment.ControlPlane.GetAPIServer().Configure().Append("feature-gates", "WatchList=false")
	restConfig, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "start the API server: run make test, or set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it")
	DeferCleanup(environment.Stop)
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())

	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	kube, err := client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return &cluster{Client: kube, config: restConfig, kubeconfig: kubeconfig}
}

func kubectlPath() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl") }

// kubectl runs the command as the administrator.
func (c *cluster) kubectl(args ...string) {
	GinkgoHelper()
	Expect(c.tryKubectl(args...)).To(Succeed())
}

func (c *cluster) tryKubectl(args ...string) error {
	command := exec.CommandContext(context.Background(), kubectlPath(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w: %s", args, err, output)
	}
	return nil
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
	c.kubectl("create", "namespace", "monitoring")
	for _, name := range []string{"scraper", "stranger"} {
		c.kubectl("create", "serviceaccount", "--namespace=monitoring", name)
	}
	c.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=warren-metrics-reader", "--serviceaccount=monitoring:scraper")
	c.scraper, c.stranger = c.token("monitoring", "scraper"), c.token("monitoring", "stranger")
}
