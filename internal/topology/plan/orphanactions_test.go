package plan_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// An object that has left the spec is removed, unless something still needs it or driftPolicy is Report.
func TestDecideOrphans(t *testing.T) {
	t.Parallel()
	for kind, verb := range map[v1alpha1.ObjectKind]plan.Verb{
		v1alpha1.KindBinding: plan.Unbind, v1alpha1.KindExchange: plan.Delete, v1alpha1.KindQueue: plan.DeleteWhenEmpty,
	} {
		orphan := plan.Orphan{Entry: v1alpha1.TopologyEntry{Kind: kind, Name: "orders.retry.10s"}}
		needed := orphan
		needed.BlockedBy = plan.Blocker{Reason: v1alpha1.AdvisoryReasonInUse, Message: "queue \"audit\" is bound to it"}
		for _, test := range []struct {
			orphan plan.Orphan
			policy v1alpha1.DriftPolicy
			verb   plan.Verb
			reason plan.Reason
		}{
			{orphan, v1alpha1.DriftPolicyCorrect, verb, plan.ReasonOrphaned},
			{orphan, v1alpha1.DriftPolicyReport, plan.Leave, plan.ReasonReportOnly},
			{needed, v1alpha1.DriftPolicyCorrect, plan.Leave, plan.ReasonBlocked},
			{needed, v1alpha1.DriftPolicyReport, plan.Leave, plan.ReasonBlocked},
		} {
			decided := plan.Decide(plan.Comparison{Orphans: []plan.Orphan{test.orphan}}, nil, test.policy)
			topologytest.Equal(t, string(kind)+" under "+string(test.policy), []plan.Action{
				{Verb: test.verb, Reason: test.reason, Entry: plan.Entry{TopologyEntry: orphan.Entry}},
			}, decided.Actions)
		}
	}
}
