package faults

import (
	"runtime"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/prometheus/procfs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// world connects Warren to its broker through proxies. Tests, publishers and consumers connect directly.
type world struct {
	*World

	amqp, management *netfault.Proxy
}

// newWorld creates a Secret and a BrokerConnection.
func newWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	return newWorldAt(broker.NewVHost(GinkgoTB()))
}

// newWorldAt is newWorld for an existing vhost.
func newWorldAt(vhost *brokers.VHost) *world {
	GinkgoHelper()
	w := newBareWorldAt(vhost)
	w.connect(vhost.Broker.Username, vhost.Broker.Password)
	return w
}

// newStraightWorld is newWorld without proxies, because a stopped broker itself refuses connections.
func newStraightWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	w := newBareWorld(broker)
	w.Broker = broker
	w.connect(broker.Username, broker.Password)
	return w
}

// newBareWorld creates neither a Secret nor a BrokerConnection.
func newBareWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	return newBareWorldAt(broker.NewVHost(GinkgoTB()))
}

func newBareWorldAt(vhost *brokers.VHost) *world {
	GinkgoHelper()
	w := &world{
		World: NewWorld(kube, vhost),
		amqp:  netfault.NewProxy(GinkgoTB(), vhost.Broker.AMQPURI), management: netfault.NewProxy(GinkgoTB(), vhost.Broker.ManagementURI),
	}
	w.Broker.AMQPURI, w.Broker.ManagementURI = w.amqp.URI, w.management.URI
	currentWorlds = append(currentWorlds, w)
	DeferCleanup(func() { currentWorlds = slices.DeleteFunc(currentWorlds, func(one *world) bool { return one == w }) })
	// The manager was started later, so it has stopped before: nothing is declared while the vhost is being deleted, which
	// can break a broker.
	DeferCleanup(w.Clear)
	return w
}

// currentWorlds are the worlds of the current spec and its containers.
var currentWorlds []*world

// The report of a failed spec has the ConsumerQueues of its worlds.
var _ = JustAfterEach(func() {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, w := range currentWorlds {
		list := &v1alpha1.ConsumerQueueList{}
		if err := w.Kube.List(ctx(), list, client.InNamespace(w.Namespace)); err != nil {
			GinkgoWriter.Println(err)
			continue
		}
		for _, cq := range list.Items {
			status, _ := yaml.Marshal(cq.Status)
			GinkgoWriter.Printf("ConsumerQueue %s/%s:\n%s", cq.Namespace, cq.Name, status)
		}
	}
})

// connect creates the Secret and the BrokerConnection.
func (w *world) connect(username, password string) {
	GinkgoHelper()
	w.Secret(username, password)
	w.Connect(v1alpha1.BrokerConnectionSpec{})
}

// startManager runs a manager only for the worlds' namespaces until the test ends.
func startManager(worlds ...*world) *Manager {
	GinkgoHelper()
	namespaces := make([]string, len(worlds))
	for i, w := range worlds {
		namespaces[i] = w.Namespace
	}
	return kube.StartManager(managerBinary, namespaces, uncounted)
}

// uncounted is the flag for tests that count writes, because message counts cause further writes.
const uncounted = "--message-counts-interval=0"

// unhurried is for tests in which a short outage must cause no write of a status. Three intervals are longer than such an outage and the
// longest wait to reconnect after it, of eight seconds.
var unhurried = v1alpha1.BrokerConnectionSpec{ResyncInterval: "10s"}

// settled waits until all ConsumerQueues are Ready and the BrokerConnection has counted them, so that nothing more is written.
func (w *world) settled(count int) {
	GinkgoHelper()
	w.AllReady(count)
	Eventually(w.Connection).Should(SatisfyAll(
		Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.ConsumerQueues", HaveValue(BeEquivalentTo(count)))))
}

type matcher = types.GomegaMatcher

// processOf returns the process of a manager.
func processOf(m *Manager) procfs.Proc {
	GinkgoHelper()
	m.ExpectRuns()
	if runtime.GOOS != "linux" {
		Skip("the test reads the resources of the manager from /proc")
	}
	process, err := procfs.NewProc(m.Command.Process.Pid)
	Expect(err).NotTo(HaveOccurred())
	return process
}

// memoryOf returns the resident memory of a manager in bytes.
func memoryOf(m *Manager) int {
	GinkgoHelper()
	status, err := processOf(m).NewStatus()
	Expect(err).NotTo(HaveOccurred())
	return int(status.VmRSS)
}

// peakMemory returns the peak memory of a manager in bytes.
func peakMemory(m *Manager) int {
	GinkgoHelper()
	status, err := processOf(m).NewStatus()
	Expect(err).NotTo(HaveOccurred())
	return int(status.VmHWM)
}
