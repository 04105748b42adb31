// Package controlplane runs a kube-apiserver and etcd for test suites and programs. It does not use Ginkgo; package testenv wraps
// it for specs.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
)

// SharedKubeConfig is the environment variable that names the kubeconfig of the API server that all suites of a run share.
// hack/with-parts.sh sets it.
const SharedKubeConfig = "WARREN_TEST_KUBECONFIG"

// Server is a kube-apiserver with its etcd.
type Server struct {
	// Config authenticates as an administrator.
	Config *rest.Config
	// KubeConfig is a file with the same credentials.
	KubeConfig string
	// Environment stops and restarts the server. It is nil if another process started the server.
	Environment *envtest.Environment
}

// Start starts a server with the CRDs in a directory, or without CRDs if crds is empty. Certificates and kubeconfig stay in
// folder, so that Environment can restart the server. change functions may change the environment before the start. Start needs
// KUBEBUILDER_ASSETS.
func Start(folder, crds string, change ...func(*envtest.Environment)) (*Server, error) {
	environment := &envtest.Environment{
		ErrorIfCRDPathMissing:    true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: deadline.For(10 * time.Second)},
		ControlPlaneStartTimeout: deadline.For(20 * time.Second),
		// The server waits up to a minute for its watchers to disconnect. envtest kills it after this time.
		ControlPlaneStopTimeout: 2 * time.Second,
	}
	if crds != "" {
		environment.CRDDirectoryPaths = []string{crds}
	}
	certificates := filepath.Join(folder, "certificates")
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the API server's certificates: %w", err)
	}
	environment.ControlPlane.GetAPIServer().CertDir = certificates
	for _, step := range change {
		step(environment)
	}
	config, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server (KUBEBUILDER_ASSETS must be the folder that hack/kubernetes.sh prints): %w", err)
	}
	s := &Server{Config: config, KubeConfig: filepath.Join(folder, "kubeconfig"), Environment: environment}
	if err := os.WriteFile(s.KubeConfig, environment.KubeConfig, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the kubeconfig: %w", err), environment.Stop())
	}
	return s, nil
}

// Connect returns the server of a kubeconfig file, which another process has started.
func Connect(kubeConfig string) (*Server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeConfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the API server: %w", err)
	}
	config.QPS, config.Burst = 1000, 2000 // the limits of envtest; client-go's default is 5 requests per second
	return &Server{Config: config, KubeConfig: kubeConfig}, nil
}

// Shared returns the server that the suites of a run share, or starts a server if SharedKubeConfig is not set.
func Shared(folder, crds string) (*Server, error) {
	if file := os.Getenv(SharedKubeConfig); file != "" {
		return Connect(file)
	}
	return Start(folder, crds)
}

// Stop stops a server that this process started. It returns an error if envtest had to kill a process.
func (s *Server) Stop() error {
	if s.Environment == nil {
		return nil
	}
	return s.Environment.Stop()
}

// Client returns a client without cache and rate limit for the types of Kubernetes and Warren.
func (s *Server) Client() (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Kubectl runs kubectl as the administrator with an input. It returns kubectl's output even if kubectl fails.
func (s *Server) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, KubectlPath(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.KubeConfig)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), err
}

// KubectlPath returns the path of kubectl.
func KubectlPath() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl") }
