package plan_test

import (
	"fmt"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/plan/plantest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// An object that is declared for the first time is not drift, unless the policy is Report.
func TestDrift(t *testing.T) {
	t.Parallel()
	const small = `{retry: {policy: None}, deadLetter: {policy: Disabled}}`
	for name, test := range map[string]struct {
		plantest.Scenario
		policy v1alpha1.DriftPolicy
		want   []string
	}{
		"a new topology":              {Scenario: plantest.Scenario{Spec: small}},
		"a new topology under Report": {Scenario: plantest.Scenario{Spec: small}, policy: v1alpha1.DriftPolicyReport, want: []string{"Queue orders Declare"}},
		"nothing has changed":         {Scenario: plantest.Scenario{Was: full}},
		"a queue was deleted": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) { topologytest.DropQueue(&o, "dlq") }},
			want:     []string{"Queue dlq Declare", "Binding  Bind"},
		},
		"an argument was added to the spec": {Scenario: plantest.Scenario{Was: full, Spec: fullWithTTL}, want: []string{"Queue orders Recreate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome := test.Play(t)
			var got []string
			for _, change := range outcome.Comparison.Drift(outcome.Known, test.policy) {
				got = append(got, fmt.Sprintf("%s %s %s", change.Kind, change.Name, change.Effect))
			}
			topologytest.Equal(t, "drift", test.want, got)
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	queue := v1alpha1.Change{Kind: v1alpha1.KindQueue, Name: "orders", Effect: v1alpha1.EffectDeclare, Message: "is missing"}
	exchange := v1alpha1.Change{Kind: v1alpha1.KindExchange, Name: "orders", Effect: v1alpha1.EffectDeclare}
	inOtherWords := queue
	inOtherWords.Message = "is not there"
	got := plan.Without([]v1alpha1.Change{queue, exchange}, []v1alpha1.Change{inOtherWords})
	topologytest.Equal(t, "changes", []v1alpha1.Change{exchange}, got)
}
