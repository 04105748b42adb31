package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// verdict is what the conditions of a ConsumerQueue say after a look. A nil truth leaves the condition's value.
type verdict struct {
	ready               truth
	progress            progress
	drifted, recreation *truth
}

// inSync says whether the topology is as desired.
func (v verdict) inSync() bool { return v.ready.reason == v1alpha1.ReasonInSync }

// waiting is the verdict where the broker cannot be looked at: nothing is known of drift, and whether recreation is
// required keeps its value.
func waiting(reason, message string) verdict {
	unknown := maybe(reason, message)
	return verdict{ready: no(reason, message), progress: reconciling, drifted: &unknown}
}

// refused is the verdict on a spec that cannot become a topology on this broker.
func refused(reason, message string) verdict {
	unknown := maybe(reason, message)
	return verdict{ready: no(reason, message), progress: stalled, drifted: &unknown, recreation: &unknown}
}

// judge decides what a comparison means, together with what came of declaring what was missing. The comparison is the
// later of the two: where nothing is open, the failure of a declaration does not matter any more.
func judge(comparison plan.Comparison, known topology.Inventory, policy v1alpha1.DriftPolicy, applied error) verdict {
	open := comparison.ChangesBeyondUpgrade(known)
	drifted := no(v1alpha1.ReasonInSync, "the broker has what the spec asks for")
	if len(open) > 0 {
		drifted = yes(v1alpha1.ReasonDrifted, summary(open))
	} else {
		applied = nil
	}
	v := verdict{drifted: &drifted, recreation: recreation(comparison, refusal(applied))}
	v.ready, v.progress = readiness(comparison, open, policy, applied)
	return v
}

// refusal is the error if the broker has an object and says that it is not as declared, which need not be one that it
// lists; nil otherwise.
func refusal(applied error) error {
	if errors.Is(applied, rabbit.ErrPreconditionFailed) || errors.Is(applied, rabbit.ErrResourceLocked) {
		return applied
	}
	return nil
}

func readiness(
	comparison plan.Comparison, open []v1alpha1.Change, policy v1alpha1.DriftPolicy, applied error,
) (truth, progress) {
	recreate := slices.ContainsFunc(open, func(c v1alpha1.Change) bool { return c.Effect == v1alpha1.EffectRecreate })
	blocked := comparison.Upgraded && slices.ContainsFunc(open, func(c v1alpha1.Change) bool { return c.Effect != v1alpha1.EffectNone })
	switch {
	case errors.Is(applied, rabbit.ErrAccessRefused):
		return no(v1alpha1.ReasonPermissionDenied, said(applied)), stalled
	case errors.Is(applied, rabbit.ErrInvalidArgument):
		return no(v1alpha1.ReasonUnsupportedByBroker, said(applied)), stalled
	case errors.Is(applied, rabbit.ErrTooLarge):
		return no(v1alpha1.ReasonInvalidSpec, said(applied)), stalled
	case recreate, refusal(applied) != nil:
		return no(v1alpha1.ReasonRecreationRequired, recreationMessage(comparison.Changes, refusal(applied))), stalled
	case len(comparison.MissingExchanges) > 0:
		return no(v1alpha1.ReasonExchangeMissing, effectSummary(comparison.Changes, v1alpha1.EffectNone)), reconciling
	case applied != nil:
		return maybe(v1alpha1.ReasonCorrecting, said(applied)), reconciling
	case comparison.MissingReturn != "" && onlyNone(open):
		return no(v1alpha1.ReasonReturnRouteMissing, comparison.MissingReturn), reconciling
	case len(open) > 0 && policy == v1alpha1.DriftPolicyReport:
		return no(v1alpha1.ReasonDrifted, summary(open)), stalled
	case blocked:
		return no(v1alpha1.ReasonRecreationRequired,
			recreationMessage(comparison.Changes, nil)+". Until then nothing new is declared: "+summary(open)), stalled
	case len(open) > 0:
		return maybe(v1alpha1.ReasonCorrecting, summary(open)), reconciling
	}
	return yes(v1alpha1.ReasonInSync, inSyncMessage(comparison)), settled
}

func inSyncMessage(comparison plan.Comparison) string {
	message := "the one object is as desired"
	if count := comparison.Desired(); count != 1 {
		message = fmt.Sprintf("all %d objects are as desired", count)
	}
	if comparison.Upgraded {
		message += " now or before the broker was upgraded"
	}
	return message
}

func onlyNone(changes []v1alpha1.Change) bool {
	return !slices.ContainsFunc(changes, func(c v1alpha1.Change) bool { return c.Effect != v1alpha1.EffectNone })
}

func recreation(comparison plan.Comparison, refused error) *truth {
	value := no(v1alpha1.ReasonInSync, "no object needs to be recreated")
	switch {
	case refused == nil && comparison.Upgraded:
		value = yes(v1alpha1.ReasonBrokerUpgraded, recreationMessage(comparison.Changes, nil)+upgradeAdvice(comparison.Changes))
	case refused != nil || comparison.Recreate():
		value = yes(v1alpha1.ReasonRecreationRequired, recreationMessage(comparison.Changes, refused))
	}
	return &value
}

// upgradeAdvice says what it means that objects are as an older RabbitMQ needs them. From 4.0 on a queue without
// x-delivery-limit has a limit of 20, where it had none before.
func upgradeAdvice(changes []v1alpha1.Change) string {
	advice := ". This is how this spec is declared on an older RabbitMQ: recreate these objects when it suits you"
	if slices.ContainsFunc(changes, func(c v1alpha1.Change) bool { return c.Path == "arguments."+vhost.ArgDeliveryLimit }) {
		advice += "; until then a message that is returned to a queue without x-delivery-limit more than 20 times is given up or lost"
	}
	return advice
}

// recreationMessage lists the objects that need recreation with what differs, and what the broker said if it refused.
func recreationMessage(changes []v1alpha1.Change, refused error) string {
	parts := plan.DescribeRecreation(changes)
	if refused != nil {
		parts = append(parts, said(refused))
	}
	return strings.Join(parts, ". ")
}

func effectSummary(changes []v1alpha1.Change, effect v1alpha1.Effect) string {
	return summary(slices.DeleteFunc(slices.Clone(changes), func(c v1alpha1.Change) bool { return c.Effect != effect }))
}

// summary says the first few changes.
func summary(changes []v1alpha1.Change) string {
	messages := make([]string, len(changes))
	for i, change := range changes {
		messages[i] = change.Message
	}
	return firstFew(messages)
}
