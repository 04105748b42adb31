package cluster

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// world has its own manager, which reaches the vhost through one node of the cluster.
type world struct{ *World }

// newWorld starts a manager that is connected to one node. The test reads the vhost through another node, which it must
// not stop.
func newWorld(connected, reading int) *world {
	GinkgoHelper()
	vhost := nodes.Node(reading).NewVHost(GinkgoTB())
	w := &world{NewWorld(kube, vhost)}
	DeferCleanup(nodes.StartAll) // before the vhost is deleted, which needs all nodes
	DeferCleanup(w.Clear)
	w.Broker = nodes.Node(connected)
	w.Secret(w.Broker.Username, w.Broker.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{})
	kube.StartManager(managerBinary, []string{w.Namespace}, "--message-counts-interval=1s")
	return w
}

// readyCount returns the number of Ready ConsumerQueues.
func (w *world) readyCount() int {
	GinkgoHelper()
	count := 0
	all := w.All()
	for i := range all {
		if IsReady(&all[i]) {
			count++
		}
	}
	return count
}
