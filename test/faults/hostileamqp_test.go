package faults

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
	. "github.com/warren-mq/warren/test/testenv"
)

// Twenty hostile BrokerConnections may use maxMemory together, and a quarter of a core after a minute.
const (
	hostileTogether = 20
	startUp         = time.Minute
	measured        = 30 * time.Second
	maxCPU          = measured / 4
)

// managementWays are all ways of the management API. Well-formed responses are almost as large as the manager accepts.
func managementWays() map[string]func(http.ResponseWriter, *http.Request) bool {
	ways := hostile.WellFormed(responseLimit * 9 / 10)
	maps.Copy(ways, hostile.Ways())
	return ways
}

// hostileGroups are all ways of both protocols in groups of at most twenty.
func hostileGroups() [][]string {
	names := slices.Concat(slices.Sorted(maps.Keys(hostile.AMQPWays())), slices.Sorted(maps.Keys(managementWays())))
	groups := make([][]string, (len(names)+hostileTogether-1)/hostileTogether)
	for i, name := range names {
		groups[i%len(groups)] = append(groups[i%len(groups)], name)
	}
	return groups
}

var _ = Describe("Twenty hostile BrokerConnections", Extended, Long, func() {
	for i, ways := range hostileGroups() {
		It(fmt.Sprintf("use few resources and are closed in time, group %d", i), func() {
			w := newWorld(shared)
			for number, way := range ways {
				w.connectHostile(fmt.Sprintf("bad-%d", number), way)
			}
			m := kube.StartManager(managerBinary, []string{w.Namespace}, "--max-management-response", strconv.Itoa(responseLimit))
			w.Queue("orders", ordinary)
			w.Ready("orders")

			time.Sleep(startUp)
			before := cpuOf(m)
			time.Sleep(measured)
			used, peak := cpuOf(m)-before, peakMemory(m)
			AddReportEntry("cost", fmt.Sprintf("%d MiB at most, %.2f cores after %v, beside %s", peak>>20, used.Seconds()/measured.Seconds(), startUp,
				strings.Join(ways, ", ")))
			Expect(peak).To(BeNumerically("<", maxMemory))
			Expect(used).To(BeNumerically("<", maxCPU))
			w.Queue("late", ordinary)
			w.Ready("late")

			By("closing them")
			for number := range ways {
				bc := w.connectionNamed(fmt.Sprintf("bad-%d", number))
				Expect(kube.Patch(ctx(), bc, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`)))).To(Succeed())
			}
			for number, way := range ways {
				Eventually(w.connectionNamed).WithArguments(fmt.Sprintf("bad-%d", number)).WithTimeout(deadline.For(20*time.Second)).
					Should(Condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended), way)
			}
		})
	}
})

// connectHostile creates a BrokerConnection to a server that misbehaves in this way on one of the protocols.
func (w *world) connectHostile(name, way string) {
	GinkgoHelper()
	spec := v1alpha1.BrokerConnectionSpec{
		SecretRef: &v1alpha1.LocalObjectReference{Name: "rabbitmq"}, VHost: w.VHost.Name, ResyncInterval: "1s",
	}
	if misbehave, ok := hostile.AMQPWays()[way]; ok {
		spec.AMQPURI, spec.ManagementURI = hostile.NewAMQP(GinkgoTB(), misbehave).URI, hostile.NewManagement(GinkgoTB(), nil).URI
	} else {
		spec.ManagementURI = hostile.NewManagement(GinkgoTB(), managementWays()[way]).URI
		if _, ok := hostile.Ways()[way]; !ok {
			spec.AMQPURI = "amqp://127.0.0.1:1" // no server, which could contradict the management API
		}
	}
	Expect(kube.Create(ctx(), &v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace}, Spec: spec})).To(Succeed())
}

// cpuOf returns the CPU time of a manager.
func cpuOf(m *Manager) time.Duration {
	GinkgoHelper()
	stat, err := processOf(m).Stat()
	Expect(err).NotTo(HaveOccurred())
	return time.Duration(stat.CPUTime() * float64(time.Second))
}
