package testenv

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Condition matches a resource by status and reason of a condition.
func Condition(name string, value metav1.ConditionStatus, reason string) types.GomegaMatcher {
	return WithTransform(func(object client.Object) string {
		found := meta.FindStatusCondition(conditionsOf(object), name)
		if found == nil {
			return "absent"
		}
		return fmt.Sprintf("%s %s %s: %s (generation %d)", found.Type, found.Status, found.Reason, found.Message, found.ObservedGeneration)
	}, HavePrefix("%s %s %s:", name, value, reason))
}

// NoCondition matches a resource without this condition.
func NoCondition(name string) types.GomegaMatcher {
	return WithTransform(func(object client.Object) *metav1.Condition {
		return meta.FindStatusCondition(conditionsOf(object), name)
	}, BeNil())
}

// Message matches a resource by the message of its Ready condition.
func Message(matcher types.GomegaMatcher) types.GomegaMatcher {
	return WithTransform(func(object client.Object) string {
		if found := meta.FindStatusCondition(conditionsOf(object), v1alpha1.ConditionReady); found != nil {
			return found.Message
		}
		return ""
	}, matcher)
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.ConsumerQueue:
		return object.Status.Conditions
	case *v1alpha1.BrokerConnection:
		return object.Status.Conditions
	case *v1alpha1.Redrive:
		return object.Status.Conditions
	case *v1alpha1.Purge:
		return object.Status.Conditions
	}
	return nil
}

// BeCurrent matches a ConsumerQueue whose status is about its newest generation.
func BeCurrent() types.GomegaMatcher {
	return WithTransform(func(cq *v1alpha1.ConsumerQueue) int64 { return cq.Generation - cq.Status.ObservedGeneration }, BeZero())
}

// Unreachable returns matchers for a ConsumerQueue whose broker could not be read for three intervals.
func Unreachable() []types.GomegaMatcher {
	return []types.GomegaMatcher{
		Condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"),
		Condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"),
		Condition("Drifted", metav1.ConditionUnknown, "BrokerUnreachable"),
		Condition("RecreationRequired", metav1.ConditionFalse, "InSync"),
		Message(ContainSubstring("See the status of the BrokerConnection")),
		HaveField("Status.Topology", HaveEach(HaveField("State", v1alpha1.StateUnknown))),
	}
}

// expectTidy checks kstatus rules that hold for every status.
func expectTidy(conditions []metav1.Condition) {
	GinkgoHelper()
	ready := meta.FindStatusCondition(conditions, "Ready")
	Expect(ready).NotTo(BeNil())
	reconciling, stalled := meta.FindStatusCondition(conditions, "Reconciling"), meta.FindStatusCondition(conditions, "Stalled")
	Expect(reconciling != nil && stalled != nil).To(BeFalse(), "Reconciling and Stalled together: %+v", conditions)
	for _, progress := range []*metav1.Condition{reconciling, stalled} {
		if progress != nil {
			Expect(progress.Status).To(Equal(metav1.ConditionTrue))
			Expect([]string{progress.Reason, progress.Message}).To(Equal([]string{ready.Reason, ready.Message}))
		}
	}
}
