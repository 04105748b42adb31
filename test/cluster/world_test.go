package cluster

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// world has a manager of its own, which reaches the vhost through one node of the cluster.
type world struct{ *World }

// newWorld starts a manager that is connected to one node, for a test that reads the vhost through another, which the test
// leaves alone.
func newWorld(connected, reading int) *world {
	GinkgoHelper()
	vhost := nodes.Node(reading).NewVHost(GinkgoTB())
	w := &world{NewWorld(kube, vhost)}
	DeferCleanup(nodes.StartAll) // before the vhost is deleted, which a part of a cluster cannot do
	DeferCleanup(w.Clear)
	w.Broker = nodes.Node(connected)
	w.Secret(w.Broker.Username, w.Broker.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{})
	kube.StartManager(managerBinary, []string{w.Namespace}, "--message-counts-interval=1s")
	return w
}

// readyCount counts the ConsumerQueues that are Ready.
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
