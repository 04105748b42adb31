package e2e

import (
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Many ConsumerQueues that are deleted together", func() {
	It("wait together and leave no object behind", func() {
		w := newPatientWorld()
		w.many(20)
		Expect(kube.DeleteAllOf(ctx(), &v1alpha1.ConsumerQueue{}, client.InNamespace(w.Namespace))).To(Succeed())
		// Deletions that wait at the same time share a fence, so twenty do not take much longer than one.
		Eventually(w.count).WithTimeout(deadline.For(time.Minute)).Should(BeZero())
		Expect(w.holds()).To(equalState(conformance.State{}))
		Eventually(w.VHost.Policies).Should(BeEmpty())
	})

	It("are deleted after a broker failure, together with their BrokerConnection and Secret in any order", Extended, Long, func() {
		w, proxy := newProxiedWorld("1s")
		w.many(50)
		before := w.holds()
		proxy.Refuse()
		meta := metav1.ObjectMeta{Namespace: w.Namespace}
		objects := []client.Object{
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "rabbitmq"}},
			&v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "default"}},
		}
		for i := range 50 {
			cq := &v1alpha1.ConsumerQueue{ObjectMeta: meta}
			cq.Name = fmt.Sprintf("orders-%d", i)
			objects = append(objects, cq)
		}
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		for _, object := range objects {
			Expect(kube.Delete(ctx(), object)).To(Succeed())
		}
		Eventually(w.count).WithTimeout(deadline.For(90 * time.Second)).Should(BeZero())
		w.EventuallyEvents("Retained", SatisfyAll(HaveLen(50), HaveEach(HaveField("Type", corev1.EventTypeWarning))))
		Expect(w.holds()).To(equalState(before))
	})
})

// many creates ConsumerQueues and waits until each is Ready.
func (w *world) many(count int) {
	GinkgoHelper()
	for i := range count {
		// A tier of a few seconds cannot be proven empty if each step takes a second.
		w.Queue(fmt.Sprintf("orders-%d", i), `{retry: {delayTiers: [{delay: 1m}]}}`)
	}
	for i := range count {
		w.readyWithin(fmt.Sprintf("orders-%d", i), time.Minute)
	}
}

func (w *world) count() int {
	return len(w.All())
}

var _ = Describe("A ConsumerQueue that is deleted together with its BrokerConnection and its Secret", func() {
	// kubectl delete -f, GitOps and a namespace deletion may delete BrokerConnection and Secret in any order.
	for order, first := range map[string][]string{
		"the Secret first":           {"Secret", "BrokerConnection", "ConsumerQueue"},
		"the BrokerConnection first": {"BrokerConnection", "ConsumerQueue", "Secret"},
		"the ConsumerQueue first":    {"ConsumerQueue", "Secret", "BrokerConnection"},
	} {
		It("is cleaned up, "+order, ExtendedUnless(order == "the Secret first"), func() {
			w := newWorld(newest)
			w.Queue("orders", typed)
			w.Ready("orders")
			before := w.holds()
			objects := map[string]client.Object{
				"Secret":           &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "rabbitmq"}},
				"BrokerConnection": &v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "default"}},
				"ConsumerQueue":    &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "orders"}},
			}
			for _, kind := range first {
				Expect(kube.Delete(ctx(), objects[kind])).To(Succeed())
			}
			w.gone("orders")
			Expect(w.holds()).To(equalState(onlySources(before)))
			w.expectRetained("", false, order)
			Eventually(func() error {
				return kube.Get(ctx(), client.ObjectKeyFromObject(objects["BrokerConnection"]), &v1alpha1.BrokerConnection{})
			}).
				WithTimeout(deadline.For(time.Minute)).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		})
	}
})
