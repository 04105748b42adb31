package consumerqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// summary is the values of the conditions after a reconciliation. A nil value keeps the condition.
type summary struct {
	ready               conditions.Value
	progress            conditions.Progress
	drifted, recreation *conditions.Value
}

// inSync reports whether the topology matches the spec.
func (v summary) inSync() bool { return v.ready.Reason == v1alpha1.ReasonInSync }

// summaryOfWaiting is the summary while the broker cannot be read. Drifted becomes Unknown, and RecreationRequired keeps its value.
func summaryOfWaiting(reason, message string) summary {
	unknown := conditions.Unknown(reason, message)
	return summary{ready: conditions.False(reason, message), progress: conditions.Reconciling, drifted: &unknown}
}

// summaryOfRefusal is the summary of a spec that cannot become a topology on this broker.
func summaryOfRefusal(reason, message string) summary {
	unknown := conditions.Unknown(reason, message)
	return summary{ready: conditions.False(reason, message), progress: conditions.Stalled, drifted: &unknown, recreation: &unknown}
}

// summarize returns the summary of a comparison and of the declaration of missing objects. The comparison is newer than the declaration: if
// nothing is missing any more, a failed declaration does not matter.
func summarize(comparison plan.Comparison, known topology.Inventory, policy v1alpha1.DriftPolicy, applied error) summary {
	open := comparison.ChangesBeyondUpgrade(known)
	drifted := conditions.False(v1alpha1.ReasonInSync, "the broker matches the spec")
	if len(open) > 0 {
		drifted = conditions.True(v1alpha1.ReasonDrifted, describeChanges(open))
	} else {
		applied = nil
	}
	v := summary{drifted: &drifted, recreation: recreation(comparison, refusal(applied))}
	v.ready, v.progress = readiness(comparison, open, policy, applied)
	return v
}

// refusal returns the error if the broker says that an object differs from its declaration, even if the broker does not list that
// object; nil otherwise.
func refusal(applied error) error {
	if errors.Is(applied, brokererr.ErrPreconditionFailed) || errors.Is(applied, brokererr.ErrResourceLocked) {
		return applied
	}
	return nil
}

func readiness(
	comparison plan.Comparison, open []v1alpha1.Change, policy v1alpha1.DriftPolicy, applied error,
) (conditions.Value, conditions.Progress) {
	recreate := slices.ContainsFunc(open, func(c v1alpha1.Change) bool { return c.Effect == v1alpha1.EffectRecreate })
	acts := func(c v1alpha1.Change) bool { return c.Effect != v1alpha1.EffectNone }
	switch {
	case errors.Is(applied, brokererr.ErrAccessRefused):
		return conditions.False(v1alpha1.ReasonPermissionDenied, conditions.ErrorSummary(applied)), conditions.Stalled
	case errors.Is(applied, brokererr.ErrInvalidArgument):
		return conditions.False(v1alpha1.ReasonUnsupportedByBroker, conditions.ErrorSummary(applied)), conditions.Stalled
	case errors.Is(applied, brokererr.ErrTooLarge):
		return conditions.False(v1alpha1.ReasonInvalidSpec, conditions.ErrorSummary(applied)), conditions.Stalled
	case errors.Is(applied, brokererr.ErrQueueNotStarted):
		return conditions.False(v1alpha1.ReasonQueueNotStarted, conditions.ErrorSummary(applied)+restartAdvice), conditions.Reconciling
	case recreate, refusal(applied) != nil:
		message := recreationMessage(comparison.Changes, refusal(applied))
		return conditions.False(v1alpha1.ReasonRecreationRequired, message), conditions.Stalled
	case len(comparison.MissingExchanges) > 0:
		message := describeChanges(slices.DeleteFunc(slices.Clone(comparison.Changes), acts))
		return conditions.False(v1alpha1.ReasonExchangeMissing, message), conditions.Reconciling
	case applied != nil:
		return conditions.Unknown(v1alpha1.ReasonCorrecting, conditions.ErrorSummary(applied)), conditions.Reconciling
	case comparison.MissingReturn != "" && !slices.ContainsFunc(open, acts):
		return conditions.False(v1alpha1.ReasonReturnRouteMissing, comparison.MissingReturn), conditions.Reconciling
	case len(open) > 0 && policy == v1alpha1.DriftPolicyReport:
		return conditions.False(v1alpha1.ReasonDrifted, describeChanges(open)), conditions.Stalled
	case comparison.Upgraded && slices.ContainsFunc(open, acts):
		message := fmt.Sprintf("%s. Until the recreation, Warren declares no new object, except sources if nothing else is "+
			"missing. Differences: %s",
			recreationMessage(comparison.Changes, nil), describeChanges(open))
		return conditions.False(v1alpha1.ReasonRecreationRequired, message), conditions.Stalled
	case len(open) > 0:
		return conditions.Unknown(v1alpha1.ReasonCorrecting, describeChanges(open)), conditions.Reconciling
	}
	return conditions.True(v1alpha1.ReasonInSync, inSyncMessage(comparison)), conditions.ProgressNone
}

const restartAdvice = ". If a majority of the nodes runs and this condition persists, the supervisor of dead-letter workers has stopped " +
	"on a node (its log says rabbit_fifo_dlx_sup): restart that node"

func inSyncMessage(comparison plan.Comparison) string {
	message := "the object matches the spec"
	if count := comparison.Desired(); count != 1 {
		message = fmt.Sprintf("all %d objects match the spec", count)
	}
	if comparison.Upgraded {
		message += " for this or an older RabbitMQ"
	}
	return message
}

func recreation(comparison plan.Comparison, refused error) *conditions.Value {
	value := conditions.False(v1alpha1.ReasonInSync, "no object needs to be recreated")
	switch {
	case refused == nil && comparison.Upgraded:
		value = conditions.True(v1alpha1.ReasonBrokerUpgraded, recreationMessage(comparison.Changes, nil)+upgradeAdvice(comparison.Changes))
	case refused != nil || comparison.RequiresRecreation():
		value = conditions.True(v1alpha1.ReasonRecreationRequired, recreationMessage(comparison.Changes, refused))
	}
	return &value
}

// upgradeAdvice explains objects that match the spec for an older RabbitMQ. A queue without x-delivery-limit has a limit of 20 from 4.0 on,
// and no limit before.
func upgradeAdvice(changes []v1alpha1.Change) string {
	advice := ". These objects match the spec for an older RabbitMQ and still work. Recreate them when convenient"
	if slices.ContainsFunc(changes, func(c v1alpha1.Change) bool { return c.Path == "arguments."+vhost.ArgDeliveryLimit }) {
		advice += ". Until then RabbitMQ dead-letters or drops a message that is returned more than 20 times to a queue without " +
			"x-delivery-limit"
	}
	return advice
}

// recreationMessage lists the objects that need recreation and what differs, with the refusal of the broker if there was one.
func recreationMessage(changes []v1alpha1.Change, refused error) string {
	parts := plan.DescribeRecreation(changes)
	if refused != nil {
		parts = append(parts, conditions.ErrorSummary(refused))
	}
	return strings.Join(parts, ". ")
}

// describeChanges describes the first few changes.
func describeChanges(changes []v1alpha1.Change) string {
	messages := make([]string, len(changes))
	for i, change := range changes {
		messages[i] = change.Message
	}
	return conditions.FirstN(messages)
}
