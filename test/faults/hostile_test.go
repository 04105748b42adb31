package faults

import (
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/hostile"
	. "github.com/warren-mq/warren/test/testenv"
)

// hostileWays are the ways of package hostile with the most different costs for a client, and the message of the BrokerConnection
// then. Without a message, the request runs into its timeout, which this test does not wait for. Which limit is
// exceeded first depends on the other connections.
var hostileWays = map[string]string{
	"one endless string":      "management API, GET /api/whoami: response too large: ",
	"endless space":           "management API, GET /api/whoami: response too large: ",
	"a bomb":                  "management API, GET /api/whoami: response too large: ",
	"a bomb of definitions":   "management API, GET /api/definitions/",
	"a bomb in a refusal":     "management API, GET /api/whoami: ",
	"endless queues":          "management API, GET /api/definitions/",
	"endless bindings":        "management API, GET /api/definitions/",
	"endless parameters":      "management API, GET /api/definitions/",
	"endless arguments":       "management API, GET /api/definitions/",
	"deeply nested arguments": "management API, GET /api/definitions/",
	"endless nesting":         "management API, GET /api/definitions/",
	"endless headers":         "management API, GET /api/whoami: ",
	"garbage":                 "management API, GET /api/whoami: broker unreachable: the response is not from RabbitMQ",
	"a redirect to itself":    "management API, GET /api/whoami: broker unreachable: answered 307 Temporary Redirect",
	"a switch of protocols":   "management API, GET /api/whoami: broker unreachable: answered 101 Switching Protocols",
	"slow headers":            "",
	"a slow answer":           "",
	"slow definitions":        "",
	"silence":                 "",
	"silence in the middle":   "",
}

// responseLimit is the manager's flag, and maxMemory the memory that it may use, in bytes. The snapshots of all vhosts may take six
// times the limit, garbage as much again, and the manager itself the rest.
const (
	responseLimit = 8 << 20
	maxMemory     = 256 << 20
)

// All APIs misbehave at the same time for one manager.
var _ = Describe("Management APIs that misbehave", Ordered, ContinueOnFailure, func() {
	var (
		w *world
		m *Manager
	)
	bad := map[string]string{} // names of BrokerConnections by the way in which their API misbehaves

	BeforeAll(func() {
		w = newWorld(shared)
		for way := range hostileWays {
			bad[way] = w.connectToHostile(fmt.Sprintf("bad-%d", len(bad)), way)
		}
		m = kube.StartManager(managerBinary, []string{w.Namespace}, "--max-management-response", strconv.Itoa(responseLimit))
		w.Queue("orders", ordinary)
		w.Ready("orders")
	})

	for way, says := range hostileWays {
		if says != "" {
			It("are reported by the BrokerConnection: "+way, func() {
				Eventually(w.connectionNamed).WithArguments(bad[way]).
					Should(SatisfyAll(readiness(metav1.ConditionFalse), Message(ContainSubstring(says))))
			})
		}
	}

	It("do not delay a ConsumerQueue at another broker, whose drift is corrected meanwhile", func() {
		before := w.VHost.Definitions()
		w.VHost.DeleteQueue("orders.dlq")
		Eventually(w.VHost.Definitions).Should(Equal(before))
		w.Ready("orders")
	})

	It("never become Ready and do not exhaust the manager's memory", func() {
		for way, name := range bad {
			Expect(w.connectionNamed(name)).NotTo(readiness(metav1.ConditionTrue), way)
		}
		w.EventuallyConnection(readiness(metav1.ConditionTrue))
		peak := peakMemory(m)
		AddReportEntry("memory", fmt.Sprintf("%d MiB at most, beside %d hostile brokers", peak>>20, len(bad)))
		Expect(peak).To(BeNumerically("<", maxMemory))
	})
})

// connectToHostile creates a BrokerConnection whose management API misbehaves in this way and returns its name.
func (w *world) connectToHostile(name, way string) string {
	GinkgoHelper()
	misbehave, known := hostile.Ways()[way]
	Expect(known).To(BeTrue(), "there is no way %q", way)
	Expect(kube.Create(ctx(), &v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace},
		Spec: v1alpha1.BrokerConnectionSpec{
			SecretRef: &v1alpha1.LocalObjectReference{Name: "rabbitmq"}, VHost: w.VHost.Name,
			ManagementURI: hostile.NewManagement(GinkgoTB(), misbehave).URI, ResyncInterval: "30s",
		},
	})).To(Succeed())
	return name
}

func (w *world) connectionNamed(name string) *v1alpha1.BrokerConnection {
	GinkgoHelper()
	bc := &v1alpha1.BrokerConnection{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: name}, bc)).To(Succeed())
	return bc
}

// readiness matches a BrokerConnection by the status of its Ready condition.
func readiness(value metav1.ConditionStatus) matcher {
	return WithTransform(func(bc *v1alpha1.BrokerConnection) bool {
		return meta.IsStatusConditionPresentAndEqual(bc.Status.Conditions, v1alpha1.ConditionReady, value)
	}, BeTrue())
}
