package e2e

import (
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// The manager's cache lacks most annotations and large labels, and the manager writes what it read from its cache.
var _ = Describe("Annotations and labels of users", func() {
	const note = "example.com/note"
	It("survive all writes of Warren", func() {
		w := newWorld(newest)
		labels := map[string]string{}
		for i := range 40 { // 3 KiB
			labels[fmt.Sprint("example.com/", i)] = strings.Repeat("x", 63)
		}
		metadata := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Namespace: w.Namespace, Name: name, Labels: maps.Clone(labels), Annotations: map[string]string{note: "mine"},
			}
		}
		survived := SatisfyAll(HaveField("Annotations", HaveKeyWithValue(note, "mine")),
			WithTransform(func(object client.Object) map[string]string {
				kept := maps.Clone(object.GetLabels())
				maps.DeleteFunc(kept, func(key, _ string) bool { return labels[key] == "" })
				return kept
			}, Equal(labels)))
		bc := w.Connection()
		before := bc.DeepCopy()
		bc.Labels, bc.Annotations = metadata("").Labels, metadata("").Annotations
		Expect(kube.Patch(ctx(), bc, client.MergeFrom(before))).To(Succeed())
		w.Queue("steady", `{}`)
		w.Ready("steady") // a ConsumerQueue gets intents only if the connection is open
		cq := &v1alpha1.ConsumerQueue{ObjectMeta: metadata("orders")}
		cq.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
		cq.Finalizers = []string{"example.com/wait"} // so that the ConsumerQueue outlives Warren's finalizer
		Expect(kube.Create(ctx(), cq)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			Expect(client.IgnoreNotFound(kube.Patch(ctx, cq, patch))).To(Succeed())
		})

		By("writing intents, finalizers and statuses")
		w.Ready("orders")
		w.Eventually("orders", survived, HaveField("Finalizers", ContainElement(v1alpha1.TopologyFinalizer)))
		w.EventuallyConnection(survived, HaveField("Finalizers", ContainElement(v1alpha1.ConnectionFinalizer)))

		By("finishing a Redrive")
		w.VHost.Send("", "orders.dlq", numbered(1)...)
		again := &v1alpha1.Redrive{ObjectMeta: metadata("again")}
		again.Spec.ConsumerQueueRef.Name = "orders"
		Expect(kube.Create(ctx(), again)).To(Succeed())
		w.EventuallyRedrive("again", survived, HaveField("Annotations", HaveKey(v1alpha1.CompletedAtAnnotation)),
			HaveField("Labels", HaveKey(v1alpha1.ExcludeFromBackupLabel)))
		w.Eventually("orders", survived, HaveField("Status.FinishedJobs", HaveLen(1)))

		By("removing the finalizer")
		w.Delete("orders")
		Eventually(func() *v1alpha1.ConsumerQueue { return w.Get("orders") }).
			Should(SatisfyAll(survived, HaveField("Finalizers", HaveExactElements("example.com/wait"))))
		w.EventuallyConnection(survived)
	})

	It("may leave no room for intents, which the status then records", func() {
		w := newWorld(newest)
		w.Queue("steady", `{}`)
		w.Ready("steady")
		cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: "orders", Annotations: map[string]string{note: strings.Repeat("x", 262_000)}, // of 262,144 bytes
		}}
		Expect(kube.Create(ctx(), cq)).To(Succeed())
		Expect(w.Ready("orders").Annotations).To(SatisfyAll(HaveLen(1), HaveKeyWithValue(note, HaveLen(262_000))))

		By("relying on the answer of the API server")
		intents := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.IntentsAnnotation, strings.Repeat("x", 200))
		Expect(kube.Patch(ctx(), cq, client.RawPatch(types.MergePatchType, []byte(intents)))).
			To(MatchError(apierrors.IsInvalid, "IsInvalid"))
	})
})
