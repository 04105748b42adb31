// Package cluster tests Warren while nodes of a RabbitMQ cluster fail: killed, stopped, without a quorum, and while leaders of
// queues move. All parts are real. Messages flow through the topologies meanwhile, and no confirmed message may be lost. Specs
// run one after the other, because they share one cluster.
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
	// nodes is the cluster of this suite. A spec that stops a node must start it again.
	nodes *brokers.Cluster
	kube  *APIServer
	// managerBinary is the manager.
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
