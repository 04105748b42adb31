package preview

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// Recreation is the queue that Warren recreates next.
type Recreation struct {
	Queue  string                  `json:"queue"`
	Policy v1alpha1.RecreatePolicy `json:"policy"`
	// NeedsApproval: it begins after `kubectl warren approve`.
	NeedsApproval bool `json:"needsApproval,omitempty"`
	// PlanHash is the hash to approve; empty for a spec that is not in the cluster yet.
	PlanHash     string             `json:"planHash,omitempty"`
	Consequences []plan.Consequence `json:"consequences"`
}

// previewRecreation describes the next recreation; nil if Warren recreates nothing.
func previewRecreation(
	cq, inCluster *v1alpha1.ConsumerQueue, comparison plan.Comparison, observed vhost.Observed, input plan.Input, known topology.Inventory,
) *Recreation {
	if !input.WarrenRecreates {
		return nil
	}
	next, found := plan.NextRecreation(comparison, known, observed, input)
	if !found {
		return nil
	}
	settings := topology.RecreationOf(cq)
	messages := int64(-1)
	if counts := inCluster.Status.Messages; counts != nil && counts.Main != nil {
		messages = *counts.Main
	}
	preview := &Recreation{
		Queue: next.Queue.Name, Policy: settings.Policy, NeedsApproval: next.NeedsApproval(settings),
		Consequences: next.Consequences(settings, messages, plan.TiersReturningTo(next.Queue.Name, inCluster.Status.Topology, observed)),
	}
	if cq != inCluster || cq.Generation != cq.Status.ObservedGeneration {
		return preview
	}
	preview.PlanHash = cq.Status.PlanHash
	required := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionRecreationRequired)
	if cause := whyNotBegun(required); cause != "" && next.Refusal == "" {
		preview.Consequences = slices.Insert(preview.Consequences, 0, plan.Consequence{For: cause, Text: required.Message})
	}
	return preview
}

// whyNotBegun returns whether a recreation is refused or waiting, as the manager reports it; empty if neither. Only the manager sees the
// broker.
func whyNotBegun(required *metav1.Condition) string {
	if required == nil {
		return ""
	}
	switch required.Reason {
	case v1alpha1.ReasonRecreationBlocked:
		return "refused"
	case v1alpha1.ReasonRecreationPending, v1alpha1.ReasonWaitingForConsumers, v1alpha1.ReasonWaitingUntilEmpty:
		return "waiting"
	}
	return ""
}
