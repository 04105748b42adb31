package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/conformance"
	. "github.com/warren-mq/warren/test/testenv"
)

// loseStatus takes the status away from the ConsumerQueue "orders" and from its BrokerConnection.
func (w *world) loseStatus(patch string) {
	GinkgoHelper()
	for _, object := range []client.Object{
		&v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "orders"}},
		&v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "default"}},
	} {
		Expect(kube.Status().Patch(ctx(), object, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
	}
}

// expectStatus expects both statuses to be written again, and the vhost to be as before.
func (w *world) expectStatus(before conformance.State) {
	GinkgoHelper()
	cq := w.Ready("orders")
	Expect(cq.Status.Topology).NotTo(BeEmpty())
	w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.ClusterName", Not(BeEmpty())))
	Expect(w.holds()).To(equalState(before))
}

var _ = Describe("A status that was lost", func() {
	for name, patch := range map[string]string{
		"replaced by an empty one": `[{"op": "replace", "path": "/status", "value": {}}]`,
		"removed":                  `[{"op": "remove", "path": "/status"}]`,
	} {
		It("is written again after it was "+name, func() {
			w, _ := newProxiedWorld(rarely)
			w.Queue("orders", typed)
			w.Ready("orders")
			before := w.holds()
			w.loseStatus(patch)
			w.expectStatus(before)
		})
	}

	It("is written again after both kinds were restored without it", func() {
		w := newWorld(newest)
		w.Queue("orders", typed+"\ndeletionPolicy: Retain")
		w.Ready("orders")
		before, bc := w.holds(), w.Connection()
		w.Delete("orders")
		w.gone("orders")
		Expect(kube.Delete(ctx(), bc)).To(Succeed())
		Eventually(func() error { return kube.Get(ctx(), client.ObjectKeyFromObject(bc), bc) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		w.Connect(bc.Spec)
		w.Queue("orders", typed+"\ndeletionPolicy: Retain")
		w.expectStatus(before)
	})

	It("is no reason to leave an empty topology when the ConsumerQueue is deleted", func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		before := w.holds()
		w.loseStatus(`[{"op": "replace", "path": "/status", "value": {}}]`)
		w.Delete("orders")
		w.gone("orders")
		Expect(w.holds()).To(equalState(onlySources(before)))
		w.expectRetained("", false, "nothing stays")
	})
})
