package controller

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
)

// judgeHealth decides what Ready of a BrokerConnection says; nil if it keeps its value. again is when to look next
// without being told of a change; zero for never.
func judgeHealth(health rabbit.Health, bc *v1alpha1.BrokerConnection, now time.Time) (value *truth, p progress, again time.Duration) {
	ready := meta.FindStatusCondition(bc.Status.Conditions, v1alpha1.ConditionReady)
	wasReady := ready != nil && ready.Status == "True" && ready.ObservedGeneration == bc.Generation
	switch {
	case health.Usable():
		connected := yes(v1alpha1.ReasonConnected, connectedMessage(health, bc.Spec.VHost))
		return &connected, settled, 0
	case health.Err == nil && wasReady:
		return nil, settled, 0 // this is the first look after a restart of the operator, and nothing is known to be wrong
	case health.Err == nil:
		connecting := maybe(v1alpha1.ReasonConnecting, "connecting to the broker")
		return &connecting, reconciling, 0
	}
	reason, p := reasonOf(health.Err)
	patient := p == reconciling || !health.SyncedAt.IsZero() && reason != v1alpha1.ReasonClusterMismatch
	if wasReady && patient { // new credentials that are refused are said at once
		interval, err := bc.Spec.ResyncInterval.Parse()
		if left := health.FailingSince.Add(patientIntervals * interval).Sub(now); err == nil && left > 0 {
			return nil, settled, left
		}
	}
	failed := no(reason, health.Err.Error())
	return &failed, p, 0
}

// connectedMessage says what a connection leads to.
func connectedMessage(health rabbit.Health, vhost string) string {
	message := fmt.Sprintf("connected to RabbitMQ %s, cluster %q, vhost %q", health.Version, health.ClusterName, vhost)
	if health.Operators != "" {
		message += "; " + otherOperator(health.Operators) + ", so nothing is removed"
	}
	if health.MatchedByName {
		message += "; that AMQP and the management API lead to one broker is taken from the cluster's name: " +
			"let the user configure queues whose names begin with warren-link-, and it can be shown"
	}
	if !health.Capabilities.Statistics {
		message += "; the broker gathers no statistics (management_agent.disable_metrics_collector), and Warren does without"
	}
	return message
}

// reasonOf names why a connection fails. What a person has to mend is stalled.
func reasonOf(err error) (string, progress) {
	switch {
	case errors.Is(err, rabbit.ErrAuthentication):
		return v1alpha1.ReasonAuthenticationFailed, stalled
	case errors.Is(err, rabbit.ErrAccessRefused):
		return v1alpha1.ReasonPermissionDenied, stalled
	case errors.Is(err, rabbit.ErrVHostNotFound):
		return v1alpha1.ReasonVHostNotFound, stalled
	case errors.Is(err, rabbit.ErrResponseTooLarge):
		return v1alpha1.ReasonResponseTooLarge, stalled
	case errors.Is(err, rabbit.ErrClusterMismatch):
		return v1alpha1.ReasonClusterMismatch, stalled
	}
	return v1alpha1.ReasonBrokerUnreachable, reconciling
}
