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

// restore deletes an object and creates it again like a backup, with labels and annotations but without a status.
func (w *world) restore(object client.Object) {
	GinkgoHelper()
	Expect(kube.Delete(ctx(), object)).To(Succeed())
	Eventually(func() error {
		return kube.Get(ctx(), client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
	}).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	switch object := object.(type) {
	case *v1alpha1.Redrive:
		object.Status = v1alpha1.RedriveStatus{}
	case *v1alpha1.Purge:
		object.Status = v1alpha1.PurgeStatus{}
	}
	Expect(kube.Create(ctx(), object)).To(Succeed())
}

// finishBoth moves one dead letter with a Redrive and deletes one with a Purge. It returns both jobs when they are recorded.
func (w *world) finishBoth() (*v1alpha1.Redrive, *v1alpha1.Purge) {
	GinkgoHelper()
	w.Queue("orders", `{}`)
	w.Ready("orders")
	w.VHost.Send("", "orders.dlq", numbered(1)...)
	w.Redrive("again", `{consumerQueueRef: {name: orders}}`)
	w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionTrue, "Completed"))
	w.VHost.Send("", "orders.dlq", numbered(1)...)
	w.Purge("old", `{consumerQueueRef: {name: orders}, expectedAtMost: 5}`)
	w.EventuallyPurge("old", Condition("Ready", metav1.ConditionTrue, "Completed"))
	isRecorded := SatisfyAll(HaveField("Labels", HaveKeyWithValue("velero.io/exclude-from-backup", "true")),
		HaveField("Annotations", HaveKey("messaging.warren.dev/completed-at")))
	redrive, purge := w.EventuallyRedrive("again", isRecorded), w.EventuallyPurge("old", isRecorded)
	cq := &v1alpha1.ConsumerQueue{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: "orders"}, cq)).To(Succeed())
	Expect(cq.Status.FinishedJobs).To(HaveExactElements(HaveField("Name", "again"), HaveField("Name", "old")))
	w.VHost.Send("", "orders.dlq", numbered(2)...)
	Eventually(w.VHost.Ready).WithArguments("orders.dlq").Should(Equal(2))
	return redrive, purge
}

// expectNothingDone expects both jobs to report that they had finished before, and all dead letters to be retained.
func (w *world) expectNothingDone() {
	GinkgoHelper()
	w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionTrue, "AlreadyFinished"), HaveField("Status.Total", BeNil()))
	w.EventuallyPurge("old", Condition("Ready", metav1.ConditionTrue, "AlreadyFinished"), HaveField("Status.Total", BeNil()))
	Consistently(w.VHost.Ready).WithArguments("orders.dlq").Should(Equal(2))
}

// loseStatus removes the status of the ConsumerQueue "orders" and of its BrokerConnection.
func (w *world) loseStatus(patch string) {
	GinkgoHelper()
	for _, object := range []client.Object{
		&v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "orders"}},
		&v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "default"}},
	} {
		Expect(kube.Status().Patch(ctx(), object, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
	}
}

// expectStatus expects both statuses to be written again, and the vhost to be unchanged.
func (w *world) expectStatus(before conformance.State) {
	GinkgoHelper()
	cq := w.Ready("orders")
	Expect(cq.Status.Topology).NotTo(BeEmpty())
	w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.Location.ClusterName", Not(BeEmpty())))
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

	It("is written again after both resources were restored without it", func() {
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

	It("does not let a finished Redrive or Purge run again after a restore, even if the ConsumerQueue lost its record", func() {
		w := newWorld(newest)
		redrive, purge := w.finishBoth()
		w.loseStatus(`[{"op": "replace", "path": "/status", "value": {}}]`)
		w.Ready("orders")
		w.restore(redrive)
		w.restore(purge)
		w.expectNothingDone()
	})

	It("does not let a finished Redrive or Purge run again when it is created from its manifest", Extended, func() {
		w := newWorld(newest)
		redrive, purge := w.finishBoth()
		for _, object := range []client.Object{redrive, purge} {
			object.SetAnnotations(nil)
			object.SetLabels(nil)
			w.restore(object)
		}
		w.expectNothingDone()
	})

	It("does not prevent the deletion of an empty topology with its ConsumerQueue", func() {
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
