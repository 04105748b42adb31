package check

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// Order is how to delete Warren's resources in a namespace, or in all if it is empty, while a manager runs. docs/installation.md gives the
// same order.
func Order(namespace string) []string {
	if namespace == "" {
		return []string{
			"kubectl delete redrives,purges,consumerqueues --all --all-namespaces",
			"kubectl delete brokerconnections --all --all-namespaces",
			"kubectl warren check --uninstall",
		}
	}
	return []string{
		"kubectl --namespace " + namespace + " delete redrives,purges,consumerqueues --all",
		"kubectl --namespace " + namespace + " delete brokerconnections --all",
		"kubectl warren check --uninstall --namespace " + namespace,
	}
}

// Uninstall lists the objects whose deletion waits for a manager, and the jobs and recreations that have not ended. The order of the
// results is the order in which to delete them.
func Uninstall(all []jobs.Job, queues []v1alpha1.ConsumerQueue, connections []v1alpha1.BrokerConnection, where string) []Result {
	var results []Result
	for _, job := range all {
		if !job.Ended() {
			results = append(results, unfinished(job))
		}
	}
	for i := range queues {
		if queues[i].Status.Recreation.IsUnderWay() {
			results = append(results, recreating(&queues[i]))
		}
		if slices.Contains(queues[i].Finalizers, v1alpha1.TopologyFinalizer) {
			results = append(results, queueWaits(&queues[i]))
		}
	}
	for i := range connections {
		if slices.Contains(connections[i].Finalizers, v1alpha1.ConnectionFinalizer) {
			results = append(results, connectionWaits(&connections[i], queues))
		}
	}
	if !AnyFailed(results) {
		results = append(results, Result{
			State: OK, Check: "finalizers", Object: "ConsumerQueues, BrokerConnections",
			Message: "no deletion waits for a manager " + where,
		})
	}
	return results
}

func unfinished(job jobs.Job) Result {
	return Result{
		State: Warning, Check: "jobs", Object: named(job.Noun(), job.Namespace, job.Name),
		Message: "it has not ended. Without a manager, its remaining messages stay in the dead-letter queue",
		Remedy: fmt.Sprintf("Wait until it ends, or cancel it:\n  kubectl warren dlq cancel %s/%s --namespace %s",
			job.Kind, job.Name, job.Namespace),
	}
}

func recreating(cq *v1alpha1.ConsumerQueue) Result {
	remedy := "Wait until the recreation ends"
	if cq.Status.Recreation.MayBeAborted() {
		remedy += fmt.Sprintf(", or abort it:\n  kubectl warren abort %s --namespace %s", cq.Name, cq.Namespace)
	}
	return Result{
		State: Failed, Check: "recreations", Object: named("ConsumerQueue", cq.Namespace, cq.Name),
		Message: fmt.Sprintf("its queue is being recreated (phase %s). Without a manager, its messages and bindings stay at the hold queue",
			cq.Status.Recreation.Phase),
		Remedy: remedy,
	}
}

// deletionOf describes what Warren does at the broker before it releases a ConsumerQueue.
var deletionOf = map[v1alpha1.DeletionPolicy]string{
	v1alpha1.DeletionPolicyDeleteIfEmpty: "has deleted its empty queues and retained the others",
	v1alpha1.DeletionPolicyRetain:        "has recorded which queues it retains",
	v1alpha1.DeletionPolicyDelete:        "has deleted its queues with their messages",
}

func queueWaits(cq *v1alpha1.ConsumerQueue) Result {
	result := Result{
		State: Failed, Check: "finalizers", Object: named("ConsumerQueue", cq.Namespace, cq.Name),
		Message: fmt.Sprintf("its deletion waits until Warren %s (deletionPolicy %s)",
			deletionOf[cq.Spec.DeletionPolicy], cq.Spec.DeletionPolicy),
		Remedy: fmt.Sprintf("kubectl --namespace %s delete consumerqueue %s", cq.Namespace, cq.Name),
	}
	if !cq.DeletionTimestamp.IsZero() {
		result.Message, result.Remedy = beingDeleted(cq.ObjectMeta, cq.Status.Conditions)
	}
	return result
}

func connectionWaits(bc *v1alpha1.BrokerConnection, queues []v1alpha1.ConsumerQueue) Result {
	var users int
	for i := range queues {
		if queues[i].Namespace == bc.Namespace && queues[i].ConnectionName() == bc.Name {
			users++
		}
	}
	result := Result{
		State: Failed, Check: "finalizers", Object: named("BrokerConnection", bc.Namespace, bc.Name),
		Message: fmt.Sprintf("its deletion waits until Warren has removed its fences at the broker, and until the ConsumerQueues that "+
			"use it are gone (%d)", users),
		Remedy: fmt.Sprintf("Delete it after its ConsumerQueues:\n  kubectl --namespace %s delete brokerconnection %s",
			bc.Namespace, bc.Name),
	}
	if !bc.DeletionTimestamp.IsZero() {
		result.Message, result.Remedy = beingDeleted(bc.ObjectMeta, bc.Status.Conditions)
	}
	return result
}

// beingDeleted describes a deletion that has begun.
func beingDeleted(object metav1.ObjectMeta, conditions []metav1.Condition) (message, remedy string) {
	message = "its deletion was requested at " + object.DeletionTimestamp.UTC().Format(time.RFC3339) + ", and waits for Warren"
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		message += ": " + ready.Message
	}
	return message, "Leave the manager running until the object is gone. Without a manager, remove the finalizer by hand: " +
		docs + "how-to/delete-a-consumerqueue/#remove-a-finalizer-by-hand"
}
