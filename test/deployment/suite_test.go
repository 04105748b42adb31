// Package deployment runs the manager as the manifests deploy it: the real binary, with the arguments and the environment
// of the Deployment and a token of its ServiceAccount, against a real API server that enforces RBAC. What it may not do
// shows as a real refusal.
package deployment

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

const (
	// system is the namespace of the operator.
	system = "warren-system"
	// config is where the manifests are.
	config = "../../config"
)

var (
	broker brokers.Broker
	// binary is the manager, built as it goes into the image.
	binary string
	// roles are what config/default gives the manager.
	roles []role
	// whole is a cluster with config/default.
	whole *cluster
)

func TestDeployment(t *testing.T) {
	RegisterFailHandler(Fail)
	broker = brokers.Newest(t)
	roles = rolesIn(t, filepath.Join(config, "default"))
	if len(roles) < 3 {
		t.Fatalf("config/default has not the roles that are to be tested: %v", roles)
	}
	SetDefaultEventuallyTimeout(deadline.For(30 * time.Second))
	SetDefaultEventuallyPollingInterval(deadline.Polling)
	SetDefaultConsistentlyPollingInterval(deadline.Polling)
	RunSpecs(t, "Warren, deployed")
}

// The first process builds the binary for all: `make test` runs the specs in several. Each has a cluster of its own, for
// a spec changes the roles, and there is one leader in a cluster.
var _ = SynchronizedBeforeSuite(func() []byte {
	binary := filepath.Join(GinkgoT().TempDir(), "manager")
	output, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../../cmd").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "build the manager: %s", output)
	return []byte(binary)
}, func(built []byte) {
	binary = string(built)
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	klog.SetOutput(GinkgoWriter)
	whole = startCluster()
	whole.kubectl("apply", "--server-side", "-k", filepath.Join(config, "default"))
	whole.kubectl("apply", "--server-side", "-f", filepath.Join("testdata", "rabbitmqcluster.yaml"))
	whole.addScrapers()
})

// ctx ends with the test.
func ctx() context.Context { return GinkgoT().Context() }
