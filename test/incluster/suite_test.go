// Package incluster shows what a platform team sees of Warren: the operator in a pod of a real cluster with a kubelet, installed,
// upgraded and removed by make and by Helm. The cluster comes from hack/cluster.sh; the broker runs on the machine. Specs are Ordered
// stories, of which each leaves the cluster as it was: there is one installation in a cluster. A newcomer's story,
// docs/getting-started.md, has a cluster of its own.
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
	// prepared is the cluster. Specs that upgrade need loadImages as well.
	prepared *cluster
	// loadImages makes the cluster know the images of this commit and of the one before. Only the first call does anything.
	loadImages = sync.OnceFunc(func() { prepared.buildImages() })
)

func TestInCluster(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("no cluster to test in: run make e2e-cluster, or set KUBECONFIG to what hack/cluster.sh up prints")
	}
	SetUpGomega(30 * time.Second)
	broker = brokers.Newest(t)
	RunSpecs(t, "Warren, in a cluster")
}

var _ = BeforeSuite(func() {
	prepared = newCluster()
})

// ctx ends with the test.
func ctx() context.Context { return GinkgoT().Context() }
