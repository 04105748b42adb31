package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
)

// Checkout is the root of the repository: a suite runs in its own folder, which is two below.
const Checkout = "../.."

// APIServer is a kube-apiserver as its administrator uses it: with a client that has no cache, and with kubectl.
type APIServer struct {
	client.WithWatch

	Config *rest.Config
	// KubeConfig is a file.
	KubeConfig string
	// Environment stops and starts the server; nil if another process started it.
	Environment *envtest.Environment
}

// StartAPIServer starts a server that has Warren's CRDs, and stops it with the suite, the container or the spec. The server
// may be stopped and started again in between. Functions may change the environment before.
func StartAPIServer(change ...func(*envtest.Environment)) *APIServer {
	GinkgoHelper()
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{filepath.Join(Checkout, "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: deadline.For(10 * time.Second)},
		ControlPlaneStartTimeout: deadline.For(20 * time.Second),
		// The server waits for a minute until those who watch are gone; after this time it is killed.
		ControlPlaneStopTimeout: 2 * time.Second,
	}
	// A folder that the environment did not make outlives a stop of the server, and so do the certificates in it.
	folder := GinkgoT().TempDir()
	certificates := filepath.Join(folder, "certificates")
	Expect(os.Mkdir(certificates, 0o700)).To(Succeed())
	environment.ControlPlane.GetAPIServer().CertDir = certificates
	for _, step := range change {
		step(environment)
	}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "start the API server: run make test, or set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it")
	DeferCleanup(func() {
		if err := environment.Stop(); err != nil {
			GinkgoLogr.Info("The API server or etcd had to be killed", "reason", err.Error())
		}
	})
	file := filepath.Join(folder, "kubeconfig")
	Expect(os.WriteFile(file, environment.KubeConfig, 0o600)).To(Succeed())
	return &APIServer{WithWatch: clientOf(config), Config: config, KubeConfig: file, Environment: environment}
}

// Connect returns the server of a kubeconfig file, which another process of the suite has started.
func Connect(kubeConfig string) *APIServer {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeConfig)
	Expect(err).NotTo(HaveOccurred())
	return &APIServer{WithWatch: clientOf(config), Config: config, KubeConfig: kubeConfig}
}

func clientOf(config *rest.Config) client.WithWatch {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	made, err := client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// Scheme has Kubernetes' own types and Warren's.
func Scheme() *runtime.Scheme {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	return scheme
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
	command := exec.CommandContext(context.Background(), KubectlPath(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.KubeConfig)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %v: %w: %s", args, err, output)
	}
	return string(output), err
}

// KubectlPath is where kubectl is.
func KubectlPath() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl") }
