// Package faults shows what Warren does when something around it fails: brokers, connections, permissions, the API
// server, and the manager itself. All parts are real; each test runs a manager process of its own, which watches the
// test's namespaces only, and reaches brokers through proxies that it can cut, hold and lead elsewhere. Messages go
// through the topologies meanwhile, and none that was confirmed may be lost.
package faults

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

var (
	// shared is the newest broker, which other tests use too.
	shared brokers.Broker
	// kube reads from, watches and writes to the API server, without a cache.
	kube       client.WithWatch
	kubeconfig string
	// managerBinary is what cmd/main.go is built into.
	managerBinary string
)

const stopTimeout = 2 * time.Second

func TestFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	shared = brokers.Newest(t)
	SetDefaultEventuallyTimeout(deadline.For(30 * time.Second))
	SetDefaultEventuallyPollingInterval(deadline.Polling)
	SetDefaultConsistentlyPollingInterval(deadline.Polling)
	RunSpecs(t, "Faults")
}

// given is what the first process of a run gives to all: `make test` runs the specs in several.
type given struct{ ManagerBinary, KubeConfig string }

var _ = SynchronizedBeforeSuite(func() []byte {
	folder := GinkgoT().TempDir()
	binary := filepath.Join(folder, "manager")
	building := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../../cmd")
	output, err := building.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "build the manager: %s", output)
	file, _ := startAPIServer()
	text, err := json.Marshal(given{ManagerBinary: binary, KubeConfig: file})
	Expect(err).NotTo(HaveOccurred())
	return text
}, func(text []byte) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	from := given{}
	Expect(json.Unmarshal(text, &from)).To(Succeed())
	managerBinary = from.ManagerBinary
	use(from.KubeConfig)
})

// startAPIServer starts an API server that may be stopped and started again, and returns where its kubeconfig is.
func startAPIServer() (kubeconfig string, environment *envtest.Environment) {
	GinkgoHelper()
	environment = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		CRDInstallOptions:     envtest.CRDInstallOptions{MaxTime: deadline.For(10 * time.Second)},
		// It waits for a minute until those who watch are gone; after this time it is killed.
		ControlPlaneStopTimeout: stopTimeout,
	}
	// A folder that the environment did not make outlives a stop of the API server, and so do the certificates in it.
	folder := GinkgoT().TempDir()
	certificates := filepath.Join(folder, "certificates")
	Expect(os.Mkdir(certificates, 0o700)).To(Succeed())
	environment.ControlPlane.GetAPIServer().CertDir = certificates
	_, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "start the API server: run make test, or set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it")
	DeferCleanup(func() {
		if err := environment.Stop(); err != nil {
			GinkgoLogr.Info("The API server or etcd had to be killed", "reason", err.Error())
		}
	})
	kubeconfig = filepath.Join(folder, "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
	return kubeconfig, environment
}

// use has this process and its managers speak to the API server of a kubeconfig.
func use(file string) {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", file)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = file
}

// ownAPIServer gives a spec an API server that it may stop: the worlds that it makes afterwards are there.
func ownAPIServer() *envtest.Environment {
	GinkgoHelper()
	before := kubeconfig
	file, environment := startAPIServer()
	use(file)
	DeferCleanup(func() { use(before) })
	return environment
}
