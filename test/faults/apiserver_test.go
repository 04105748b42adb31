package faults

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("An API server that is stopped and started again", func() {
	It("makes the manager wait. Afterwards the manager corrects the drift of the outage, and writes and declares nothing else", Extended, func() {
		useOwnAPIServer()
		server := kube.Environment.ControlPlane.GetAPIServer()
		w := newWorld(shared)
		running := startManager(w)
		names := w.Queues("orders", 5, ordinary)
		w.settled(5)
		flow := w.flow(names[:2]...)
		before := w.versions()
		holds := w.VHost.Definitions()

		stopped := true
		DeferCleanup(func() {
			if stopped { // a second start would leave the first process running after the suite
				Expect(server.Start()).To(Succeed())
			}
		})
		Expect(server.Stop()).To(Or(Succeed(), MatchError(ContainSubstring("to stop"))), "it is killed if it takes its time")
		w.VHost.DeleteQueue(names[4] + ".dlq")
		Consistently(running.HasEnded).WithTimeout(3 * time.Second).Should(BeFalse())
		Expect(server.Start()).To(Succeed())
		stopped = false

		Eventually(w.VHost.Definitions).Should(Equal(holds))
		w.AllReady(5)
		w.Queue("later", ordinary)
		w.settled(6)
		after := w.versions()
		for _, name := range names[:4] {
			Expect(after[name]).To(Equal(before[name]), name)
		}
		w.ExpectExactly()
		flow.noneLost()
	})
})

var _ = Describe("A ConsumerQueue that the API server removes despite its finalizer", func() {
	// The API server does so if it handles a deletion while Warren adds the finalizer, see
	// https://github.com/kubernetes/kubernetes/issues/77988. Here the spec removes the ConsumerQueue from etcd.
	It("leaves nothing at the broker", Extended, func() {
		useOwnAPIServer()
		w := newWorld(shared)
		startManager(w)
		names := w.Queues("orders", 2, ordinary)
		w.settled(2)
		key := fmt.Sprintf("/registry/%s/consumerqueues/%s/%s", v1alpha1.GroupVersion.Group, w.Namespace, names[0])
		request := fmt.Sprintf(`{"key": %q}`, base64.StdEncoding.EncodeToString([]byte(key)))
		etcd := kube.Environment.ControlPlane.Etcd.URL.JoinPath("v3", "kv", "deleterange").String()
		answer, err := http.Post(etcd, "application/json", strings.NewReader(request))
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Body.Close()).To(Succeed())
		Expect(answer).To(HaveHTTPStatus(http.StatusOK))
		w.settled(1)
		w.ExpectExactly()
	})
})

// versions returns the resource versions of all ConsumerQueues.
func (w *world) versions() map[string]string {
	GinkgoHelper()
	versions := map[string]string{}
	for _, cq := range w.All() {
		versions[cq.Name] = cq.ResourceVersion
	}
	return versions
}
