// Package e2e shows what Warren promises through its real parts: a kube-apiserver, the controllers as the manager runs
// them, and every RabbitMQ of the matrix. Each test has a namespace and a vhost of its own.
package e2e

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/test/brokers"
)

var (
	// matrix is every broker to test with, the newest first.
	matrix []brokers.Broker
	// kube reads from and writes to the API server, without a cache.
	kube       client.Client
	kubeconfig string
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	matrix = brokers.All(t)
	for i := range matrix { // passwords that are no words, so that they can be searched for
		user := matrix[i].NewUser(t, "administrator")
		matrix[i].Username, matrix[i].Password = user.Username, user.Password
	}
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(4 * time.Second)
	RunSpecs(t, "Warren")
}

var _ = BeforeSuite(func() {
	heard := &witness{}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.MultiWriter(GinkgoWriter, heard)), zap.UseDevMode(true)))
	klog.SetLogger(ctrl.Log)
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "start the API server: run make test, or set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it")
	DeferCleanup(environment.Stop)
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())

	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	watching, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	kube = watching
	listening, stopListening := context.WithCancel(context.Background())
	DeferCleanup(stopListening)
	heard.listen(listening, watching)
	DeferCleanup(heard.testify) // after the manager has stopped: what is deferred later comes first

	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	Expect(controller.Setup(ctx, mgr, controller.Options{})).To(Succeed())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(stopped).Should(Receive(BeNil()), "the manager stops in good order")
	})
})

// onEachBroker makes one test for each broker of the matrix.
func onEachBroker(text string, body func(broker brokers.Broker)) {
	GinkgoHelper()
	for _, broker := range matrix {
		It(text+", on RabbitMQ "+broker.Version, func() { body(broker) })
	}
}

// kubectl runs the command as a user would.
func kubectl(args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(context.Background(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %v: %s", args, output)
	return string(output)
}
