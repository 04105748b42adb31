package brokerconnection

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// summarizeHealth returns the value of Ready; nil if Ready keeps its value. again is how soon to check again without a notice; zero
// means not at all.
func summarizeHealth(
	health rabbit.Health, bc *v1alpha1.BrokerConnection, now time.Time,
) (value *conditions.Value, progress conditions.Progress, again time.Duration) {
	ready := meta.FindStatusCondition(bc.Status.Conditions, v1alpha1.ConditionReady)
	wasReady := ready != nil && ready.Status == "True" && ready.ObservedGeneration == bc.Generation
	switch {
	case health.Usable():
		connected := conditions.True(v1alpha1.ReasonConnected, connectedMessage(health, bc.Spec.VHost))
		return &connected, conditions.ProgressNone, 0
	case health.Err == nil && wasReady:
		// This is the first reconciliation after a restart of the manager, and the connection has not reported an error yet.
		return nil, conditions.ProgressNone, 0
	case health.Err == nil:
		connecting := conditions.Unknown(v1alpha1.ReasonConnecting, "connecting to the broker")
		return &connecting, conditions.Reconciling, 0
	}
	reason, progress := reasonOf(health.Err)
	mayBeTemporary := progress == conditions.Reconciling || !health.SyncedAt.IsZero() && reason != v1alpha1.ReasonClusterMismatch
	if wasReady && mayBeTemporary { // refused new credentials are reported immediately
		interval, err := bc.Spec.ResyncInterval.Parse()
		if left := health.FailingSince.Add(retrybudget.FailingIntervals * interval).Sub(now); err == nil && left > 0 {
			return nil, conditions.ProgressNone, left
		}
	}
	failed := conditions.False(reason, health.Err.Error())
	return &failed, progress, 0
}

func connectedMessage(health rabbit.Health, virtualHost string) string {
	message := fmt.Sprintf("connected to RabbitMQ %s, cluster %q, vhost %q", health.Version, health.ClusterName, virtualHost)
	if version, err := vhost.ParseVersion(health.Version); err == nil && version.Untested() {
		message += fmt.Sprintf("; Warren is untested with this version, and treats it as RabbitMQ %s", vhost.NewestTested)
	}
	if health.OtherInstances != "" {
		message += "; " + brokers.OtherInstance(health.OtherInstances) + ", so nothing is removed"
	}
	if health.MatchedByName {
		message += "; AMQP and the management API report the same cluster name, but Warren cannot verify that they lead to one broker. " +
			"Grant the user the configure permission on queues named warren-link-*"
	}
	if !health.Capabilities.Statistics {
		message += "; the broker gathers no statistics (management_agent.disable_metrics_collector), and Warren works without them"
	}
	return message
}

// reasonOf returns the reason why a connection fails. The progress is Stalled if a user must fix the cause.
func reasonOf(err error) (string, conditions.Progress) {
	switch {
	case errors.Is(err, brokererr.ErrAuthentication):
		return v1alpha1.ReasonAuthenticationFailed, conditions.Stalled
	case errors.Is(err, brokererr.ErrAccessRefused):
		return v1alpha1.ReasonPermissionDenied, conditions.Stalled
	case errors.Is(err, brokererr.ErrVHostNotFound):
		return v1alpha1.ReasonVHostNotFound, conditions.Stalled
	case errors.Is(err, brokererr.ErrResponseTooLarge):
		return v1alpha1.ReasonResponseTooLarge, conditions.Stalled
	case errors.Is(err, brokererr.ErrClusterMismatch):
		return v1alpha1.ReasonClusterMismatch, conditions.Stalled
	}
	return v1alpha1.ReasonBrokerUnreachable, conditions.Reconciling
}
