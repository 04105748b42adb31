package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/vhost"
)

// Connections checks each BrokerConnection with its broker and its broker's user, and the ConsumerQueues.
func Connections(connections []v1alpha1.BrokerConnection, queues []v1alpha1.ConsumerQueue, where string) []Result {
	results := make([]Result, 0, 4*len(connections)+1)
	for i := range connections {
		bc := &connections[i]
		results = append(results, connection(bc))
		if bc.Status.Capabilities != nil {
			results = append(results, broker(bc), tags(bc), events(bc))
		}
		results = append(results, permissions(bc, queues))
	}
	if len(connections) == 0 {
		results = append(results, Result{
			State: Warning, Check: "connection", Object: "BrokerConnections", Message: "there is none " + where,
			Remedy: "Create one: " + docs + "broker-connection/. For other namespaces, add --namespace NAME, or -A for all.",
		})
	}
	return append(results, consumerQueues(queues, where))
}

// pages maps reasons of a BrokerConnection to pages of docs/troubleshooting. The page broker explains all other reasons.
var pages = map[string]string{
	v1alpha1.ReasonPending: "at-work", v1alpha1.ReasonConnecting: "at-work", v1alpha1.ReasonTerminating: "at-work",
	v1alpha1.ReasonInvalidSpec: "spec",
}

func connection(bc *v1alpha1.BrokerConnection) Result {
	result := Result{State: Failed, Check: "connection", Object: named("BrokerConnection", bc.Namespace, bc.Name)}
	ready := meta.FindStatusCondition(bc.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || bc.Status.ObservedGeneration < bc.Generation:
		result.Message = "Warren has not read the current spec"
		result.Remedy = "Wait some seconds. If nothing changes, check that a manager leads, and that it watches the namespace " +
			"(--watch-namespaces)."
	case bc.Spec.Suspend:
		result.State, result.Message = Warning, "spec.suspend is true, so Warren does nothing at the broker"
		result.Remedy = "Set spec.suspend to false."
	case ready.Status == metav1.ConditionTrue:
		result.State, result.Message = OK, ready.Message
	default:
		result.Message = ready.Reason + ": " + ready.Message
		page := cmp.Or(pages[ready.Reason], "broker")
		result.Remedy = fmt.Sprintf("%stroubleshooting/%s/#%s explains the reason.", docs, page, strings.ToLower(ready.Reason))
	}
	return result
}

func broker(bc *v1alpha1.BrokerConnection) Result {
	result := Result{State: OK, Check: "broker version", Object: named("BrokerConnection", bc.Namespace, bc.Name)}
	result.Message = "RabbitMQ " + bc.Status.BrokerVersion
	version, err := vhost.ParseVersion(bc.Status.BrokerVersion)
	switch {
	case err != nil:
		result.State, result.Message = Warning, "the version of RabbitMQ is unknown"
		result.Remedy = "Wait until the BrokerConnection is Ready."
	case !version.AtLeast(vhost.RabbitMQ310):
		result.State = Failed
		result.Message += " is too old, so Warren declares nothing"
		result.Remedy = "Upgrade RabbitMQ to 3.10 or newer."
	case version.Untested():
		result.State = Warning
		result.Message += fmt.Sprintf(" is newer than the tested versions. Warren treats it as %s", vhost.NewestTested)
		result.Remedy = "Use a tested version, or upgrade Warren."
	}
	return result
}

// tags checks the tags of the broker's user. The status contains neither the name of the user nor the tag monitoring.
func tags(bc *v1alpha1.BrokerConnection) Result {
	result := Result{State: OK, Check: "user tags", Object: named("BrokerConnection", bc.Namespace, bc.Name)}
	switch {
	case bc.Status.Capabilities.Definitions:
		result.Message = "the user has the tag administrator"
	case bc.Status.Capabilities.Policies:
		result.Message = "the user has the tag policymaker"
	default:
		result.State = Warning
		result.Message = "the user lacks the tag policymaker, so Warren recreates no queue, and deletes queues only with " +
			"deletionPolicy Delete"
		result.Remedy = "Add policymaker to the tags of the user in the Secret. set_user_tags replaces all tags, so include the " +
			"current ones:\n  rabbitmqctl list_users\n" +
			"  rabbitmqctl set_user_tags USER PRESENT_TAGS policymaker"
	}
	return result
}

func events(bc *v1alpha1.BrokerConnection) Result {
	result := Result{State: OK, Check: "events", Object: named("BrokerConnection", bc.Namespace, bc.Name)}
	result.Message = "Warren sees changes at the broker immediately"
	if !bc.Status.Capabilities.Events {
		result.State = Warning
		result.Message = fmt.Sprintf("Warren sees changes at the broker only every %s: %s", bc.Spec.ResyncInterval,
			strings.TrimSuffix(bc.Status.Capabilities.EventsReason, "."))
		result.Remedy = "Enable rabbitmq_event_exchange: " + docs + "broker-connection/#event-feed-see-changes-immediately"
	}
	return result
}

// permissions checks that no ConsumerQueue lacks a permission of the broker's user.
func permissions(bc *v1alpha1.BrokerConnection, queues []v1alpha1.ConsumerQueue) Result {
	result := Result{State: OK, Check: "user permissions", Object: named("BrokerConnection", bc.Namespace, bc.Name)}
	var users int
	var denied []string
	for i := range queues {
		cq := &queues[i]
		if cq.Namespace != bc.Namespace || cq.ConnectionName() != bc.Name {
			continue
		}
		users++
		ready := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady)
		if ready != nil && ready.Reason == v1alpha1.ReasonPermissionDenied {
			denied = append(denied, fmt.Sprintf("ConsumerQueue %s: %s", cq.Name, ready.Message))
		}
	}
	ready := meta.FindStatusCondition(bc.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Reason == v1alpha1.ReasonPermissionDenied {
		denied = append([]string{ready.Message}, denied...)
	}
	switch {
	case len(denied) > 0:
		result.State = Failed
		result.Message = abbreviate(denied)
		result.Remedy = "Give the user the permissions with rabbitmqctl set_permissions: " +
			docs + "broker-connection/#permissions-of-the-rabbitmq-user"
	case users == 0:
		result.State = Skipped
		result.Message = "no ConsumerQueue uses the connection, so Warren has needed no permission yet"
		result.Remedy = "Create a ConsumerQueue, and run the command again."
	default:
		result.Message = fmt.Sprintf("no permission is missing for %s", text.Count(users, "ConsumerQueue"))
	}
	return result
}

func consumerQueues(queues []v1alpha1.ConsumerQueue, where string) Result {
	result := Result{State: OK, Check: "ConsumerQueues", Object: "ConsumerQueues"}
	var unready []string
	for i := range queues {
		cq := &queues[i]
		ready := ptr.Deref(meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady), metav1.Condition{Reason: "Pending"})
		if ready.Status != metav1.ConditionTrue {
			unready = append(unready, fmt.Sprintf("%s/%s (%s)", cq.Namespace, cq.Name, ready.Reason))
		}
	}
	slices.Sort(unready)
	switch {
	case len(queues) == 0:
		result.Message = "there is none " + where
	case len(unready) > 0:
		result.State = Failed
		result.Message = fmt.Sprintf("%d of %d not Ready: %s", len(unready), len(queues), abbreviate(unready))
		result.Remedy = "See why:\n  kubectl warren status NAME --namespace NAMESPACE\n" + docs + "troubleshooting/ explains each reason."
	default:
		result.Message = fmt.Sprintf("Ready: %d", len(queues))
	}
	return result
}
