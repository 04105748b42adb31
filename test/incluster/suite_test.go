// Package incluster tests the operator in a pod of a real cluster with a kubelet, installed,
// upgraded and removed with make and with Helm. The cluster is started by hack/cluster.sh, and the broker runs on the machine. Specs are in Ordered
// containers, each of which restores the cluster, because a cluster has one installation. The test of
// docs/getting-started.md has its own cluster.
package incluster

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	broker brokers.Broker
	// prepared returns the cluster. Specs that upgrade also need loadImages.
	prepared *cluster
	// loadImages loads the images of this commit and the one before into the cluster. Further calls do nothing.
	loadImages = sync.OnceFunc(func() { prepared.buildImages() })
)

func TestInCluster(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("no cluster to test in: run make e2e-cluster, or set KUBECONFIG to the file that hack/cluster.sh up prints")
	}
	SetUpGomega(30 * time.Second)
	broker = brokers.Newest(t)
	RunSpecs(t, "Warren, in a cluster")
}

var _ = BeforeSuite(func() {
	prepared = newCluster()
})

// ctx ends with the test.
func ctx() context.Context { return ContextOfSpec() }
