// Package e2e shows what Warren promises through its real parts: a kube-apiserver, the controllers as the manager runs
// them, and every RabbitMQ of the matrix. Each test has a namespace and a vhost of its own.
package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
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
	SetDefaultEventuallyTimeout(deadline.For(30 * time.Second))
	SetDefaultEventuallyPollingInterval(deadline.Polling)
	SetDefaultConsistentlyPollingInterval(deadline.Polling)
	SetDefaultConsistentlyDuration(4 * time.Second)
	RunSpecs(t, "Warren")
}

// shared is what the first process of a run gives to all: `make test` runs the specs in several. One manager works for
// all of them, as it does for many namespaces of a cluster.
type shared struct {
	KubeConfig []byte
	// Log is the file that the manager's log is in.
	Log string
}

// managerLog is the file that the manager's log is in.
var managerLog string

var _ = SynchronizedBeforeSuite(func() []byte {
	log := filepath.Join(GinkgoT().TempDir(), "manager.log")
	file, err := os.Create(log)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(file.Close)
	heard := &witness{}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.MultiWriter(file, heard)), zap.UseDevMode(true)))
	klog.SetLogger(ctrl.Log)
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		CRDInstallOptions:     envtest.CRDInstallOptions{MaxTime: deadline.For(10 * time.Second)},
	}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "start the API server: run make test, or set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it")
	DeferCleanup(environment.Stop)

	listening, stopListening := context.WithCancel(context.Background())
	DeferCleanup(stopListening)
	heard.listen(listening, newClient(config))
	DeferCleanup(heard.testify) // after the manager has stopped: what is deferred later comes first

	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	Expect(controller.Setup(ctx, mgr, controller.Options{})).To(Succeed())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(stopped).Should(Receive(BeNil()), "the manager stops in good order")
	})
	given, err := json.Marshal(shared{KubeConfig: environment.KubeConfig, Log: log})
	Expect(err).NotTo(HaveOccurred())
	return given
}, func(given []byte) {
	from := shared{}
	Expect(json.Unmarshal(given, &from)).To(Succeed())
	managerLog = from.Log
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, from.KubeConfig, 0o600)).To(Succeed())
	config, err := clientcmd.RESTConfigFromKubeConfig(from.KubeConfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	kube = newClient(config)
	if GinkgoParallelProcess() > 1 {
		ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
		klog.SetLogger(ctrl.Log)
	}
})

func scheme() *runtime.Scheme {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	return scheme
}

func newClient(config *rest.Config) client.WithWatch {
	GinkgoHelper()
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme()})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// showLog has the report of a spec that fails show what the manager said about a namespace.
func showLog(namespace string) {
	GinkgoHelper()
	DeferCleanup(func() {
		if !CurrentSpecReport().Failed() {
			return
		}
		text, err := os.ReadFile(managerLog)
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, namespace) {
				GinkgoWriter.Print(line)
			}
		}
	})
}

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
