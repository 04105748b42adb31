// Package cluster shows what Warren does when nodes of a RabbitMQ cluster fail: killed, stopped, without a quorum, and with
// the leaders of queues on the move. All parts are real. Messages go through the topologies meanwhile, and none that was
// confirmed may be lost. Specs are Serial, for they have one cluster, and its nodes fail for all of them.
package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

var (
	// nodes is the cluster of this suite. A spec that ends a node has it running again at its end.
	nodes *brokers.Cluster
	// kube reads from and writes to the API server, without a cache.
	kube       client.Client
	kubeconfig string
	// managerBinary is what cmd/main.go is built into.
	managerBinary string
)

// polling is less often than usual: each question is a request to an API server or a broker that have much to do.
const polling = 200 * time.Millisecond

func TestCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(deadline.For(45 * time.Second)) // nodes boot, and queues elect leaders
	SetDefaultEventuallyPollingInterval(polling)
	SetDefaultConsistentlyPollingInterval(polling)
	RunSpecs(t, "Cluster")
}

// Only the first of the processes has the specs of this suite.
var _ = SynchronizedBeforeSuite(func() {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	folder := GinkgoT().TempDir()
	managerBinary = filepath.Join(folder, "manager")
	building := exec.CommandContext(context.Background(), "go", "build", "-o", managerBinary, "../../cmd")
	output, err := building.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "build the manager: %s", output)

	version := os.Getenv("WARREN_TEST_CLUSTER_VERSION")
	if version == "" {
		version = "4.3"
	}
	nodes = brokers.NewCluster(GinkgoTB(), version)
	startAPIServer(folder)
}, func() {})

func startAPIServer(folder string) {
	GinkgoHelper()
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: deadline.For(10 * time.Second)},
		ControlPlaneStartTimeout: deadline.For(20 * time.Second),
		// It waits for a minute until those who watch are gone; after this time it is killed.
		ControlPlaneStopTimeout: 2 * time.Second,
	}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "start the API server: run make test, or set KUBEBUILDER_ASSETS as hack/kubernetes.sh prints it")
	DeferCleanup(func() {
		if err := environment.Stop(); err != nil {
			GinkgoLogr.Info("The API server or etcd had to be killed", "reason", err.Error())
		}
	})
	kubeconfig = filepath.Join(folder, "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())

	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	config.QPS = -1
	kube, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
}

func ctx() context.Context { return GinkgoT().Context() }
