package redact

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// publishedAnnotations are the annotations of Warren whose values contain only names, hashes and times. Other annotations, such as
// kubectl.kubernetes.io/last-applied-configuration, may contain anything.
var publishedAnnotations = []string{
	v1alpha1.IntentsAnnotation, v1alpha1.CompletedAtAnnotation,
	v1alpha1.ApproveRecreationAnnotation, v1alpha1.AbortRecreationAnnotation,
}

// Resource returns the published part of a ConsumerQueue, BrokerConnection, Redrive or Purge: spec, status, and the fields of the
// metadata that Warren uses. It publishes no value of a selector and no name of a person. Resource changes the object. Pass the result to
// YAML, which redacts its texts.
func Resource(object client.Object) (map[string]any, error) {
	published := map[string]any{"metadata": metadata(object)}
	switch object := object.(type) {
	case *v1alpha1.ConsumerQueue:
		object.Status.LastHandledReconcileAt = ""
		published["spec"], published["status"] = object.Spec, object.Status
	case *v1alpha1.BrokerConnection:
		object.Status.LastHandledReconcileAt = ""
		published["spec"], published["status"] = object.Spec, object.Status
	case *v1alpha1.Redrive:
		hideJob(object.Spec.Selector, &object.Spec.RequestedBy, &object.Spec.Reason)
		hideSelectorErrors(object.Status.Conditions)
		published["spec"], published["status"] = object.Spec, object.Status
	case *v1alpha1.Purge:
		hideJob(object.Spec.Selector, &object.Spec.RequestedBy, &object.Spec.Reason)
		hideSelectorErrors(object.Status.Conditions)
		published["spec"], published["status"] = object.Spec, object.Status
	default:
		return nil, fmt.Errorf("a report has no objects of the type %T", object)
	}
	return published, nil
}

// metadata returns the published fields of an object's metadata. Labels are not published.
func metadata(object client.Object) map[string]any {
	fields := map[string]any{
		"namespace": object.GetNamespace(), "name": object.GetName(), "uid": string(object.GetUID()),
		"generation": object.GetGeneration(), "creationTimestamp": object.GetCreationTimestamp(),
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		fields["deletionTimestamp"] = deleted
	}
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		fields["finalizers"] = finalizers
	}
	annotations := map[string]string{}
	for _, name := range publishedAnnotations {
		if value, has := object.GetAnnotations()[name]; has {
			annotations[name] = value
		}
	}
	if len(annotations) > 0 {
		fields["annotations"] = annotations
	}
	return fields
}

// hideJob hides the values of headers and the expression in a selector, and further texts of a job.
func hideJob(selector *v1alpha1.DeadLetterSelector, texts ...*string) {
	if selector != nil {
		texts = append(texts, &selector.Expression)
		for i := range selector.Headers {
			for j := range selector.Headers[i].Values {
				texts = append(texts, &selector.Headers[i].Values[j])
			}
		}
	}
	for _, text := range texts {
		if *text != "" {
			*text = redacted
		}
	}
}

// hideSelectorErrors hides messages that quote a selector.
func hideSelectorErrors(conditions []metav1.Condition) {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonInvalidSelector {
		return
	}
	for i := range conditions {
		conditions[i].Message = redacted
	}
}
