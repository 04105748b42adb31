package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A BrokerConnection without its finalizer", func() {
	It("is not used to declare anything", func() {
		w := newBareWorld(newest)
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		allow := w.forbidFinalizer()
		w.Queue("orders", `{}`)
		w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"))
		Consistently(w.queues).WithTimeout(2 * time.Second).Should(BeEmpty())
		Expect(w.Get("orders").Finalizers).To(BeEmpty())

		allow()
		w.Ready("orders")
		Expect(w.Connection().Finalizers).To(ConsistOf(v1alpha1.ConnectionFinalizer))

		By("adding the finalizer again after it was removed")
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		Expect(kube.Patch(ctx(), w.Connection(), patch)).To(Succeed())
		Eventually(func() []string { return w.Connection().Finalizers }).Should(ConsistOf(v1alpha1.ConnectionFinalizer))
	})

	It("is not used for new topologies while it is being deleted", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		Expect(kube.Delete(ctx(), w.Connection())).To(Succeed())
		w.Queue("late", `{}`)
		w.Eventually("late", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"))
		Expect(w.queues()).NotTo(ContainElement("late"))
	})
})

// forbidFinalizer makes the API server refuse finalizers on the world's BrokerConnections until the returned function is called.
func (w *world) forbidFinalizer() (allow func()) {
	GinkgoHelper()
	name := "no-finalizer." + w.Namespace
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule: admissionv1.Rule{
						APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"brokerconnections"},
					},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "namespace", Expression: fmt.Sprintf("request.namespace == %q", w.Namespace),
			}},
			Validations: []admissionv1.Validation{{Expression: "!has(object.metadata.finalizers)", Message: "no finalizer here"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, object := range []client.Object{policy, binding} {
		Expect(kube.Create(ctx(), object)).To(Succeed())
		DeferCleanup(func() { _ = kube.Delete(context.Background(), object) })
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/try"]}}`))
	Eventually(func() error { return kube.Patch(ctx(), w.Connection(), patch, client.DryRunAll) }).
		Should(MatchError(ContainSubstring("no finalizer here")), "the policy is in effect")
	return func() { Expect(kube.Delete(ctx(), binding)).To(Succeed()) }
}
