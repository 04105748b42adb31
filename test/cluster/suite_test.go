// Package cluster shows what Warren does when nodes of a RabbitMQ cluster fail: killed, stopped, without a quorum, and with
// the leaders of queues on the move. All parts are real. Messages go through the topologies meanwhile, and none that was
// confirmed may be lost. Specs run one after the other, for they have one cluster, and its nodes fail for all of them.
package cluster

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	// nodes is the cluster of this suite. A spec that ends a node has it running again at its end.
	nodes *brokers.Cluster
	kube  *APIServer
	// managerBinary is what cmd/main.go is built into.
	managerBinary string
)

func TestCluster(t *testing.T) {
	SetUpGomega(45 * time.Second) // nodes boot, and queues elect leaders
	RunSpecs(t, "Cluster", Extended)
}

// processes: 1
var _ = BeforeSuite(func() {
	LogTo(GinkgoWriter)
	managerBinary = BuildManager()
	version := os.Getenv("WARREN_TEST_CLUSTER_VERSION")
	if version == "" {
		version = "4.3"
	}
	nodes = brokers.NewCluster(GinkgoTB(), version)
	kube = SharedAPIServer()
})
