package conditions

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/metrics"
)

// A Ready resource has no series. A suspended resource has only a series for Suspended: its other conditions are old.
func TestCountsEmitsConditionsThatNeedAttention(t *testing.T) {
	t.Parallel()
	condition := func(name string, status metav1.ConditionStatus, at int64) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "Why", LastTransitionTime: metav1.Unix(at, 0)}
	}
	queue := func(name string, conditions ...metav1.Condition) *v1alpha1.ConsumerQueue {
		cq := controllertest.Named(t, "shop", name, `{}`)
		cq.Status.Conditions = conditions
		return cq
	}
	fresh := queue("fresh", condition(v1alpha1.ConditionReady, "Unknown", 0)) // as the API server creates it
	fresh.CreationTimestamp = metav1.Unix(50, 0)
	deleted := queue("deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(900, 0)}
	collector := metrics.NewCollector(func(emit metrics.Emit) {
		counts := NewCounts("ConsumerQueue")
		for _, cq := range []*v1alpha1.ConsumerQueue{
			queue("well", condition(v1alpha1.ConditionReady, "True", 100), condition(v1alpha1.ConditionDrifted, "False", 100)),
			queue("stalled", condition(v1alpha1.ConditionReady, "False", 200), condition(v1alpha1.ConditionStalled, "True", 300)),
			queue("suspended", condition(v1alpha1.ConditionReady, "False", 400), condition(v1alpha1.ConditionDrifted, "True", 400),
				condition(v1alpha1.ConditionSuspended, "True", 500)),
			fresh, deleted,
		} {
			counts.Add(emit, cq, cq.Status.Conditions)
		}
	})
	want := `
# HELP warren_resource_condition_since_timestamp_seconds ` + controllertest.HelpOf(t, "warren_resource_condition_since_timestamp_seconds") + `
# TYPE warren_resource_condition_since_timestamp_seconds gauge
warren_resource_condition_since_timestamp_seconds{condition="Ready",kind="ConsumerQueue",name="fresh",namespace="shop",reason="Why",status="Unknown"} 50
warren_resource_condition_since_timestamp_seconds{condition="Ready",kind="ConsumerQueue",name="stalled",namespace="shop",reason="Why",status="False"} 200
warren_resource_condition_since_timestamp_seconds{condition="Stalled",kind="ConsumerQueue",name="stalled",namespace="shop",reason="Why",status="True"} 300
warren_resource_condition_since_timestamp_seconds{condition="Suspended",kind="ConsumerQueue",name="suspended",namespace="shop",reason="Why",status="True"} 500
# HELP warren_resource_deletion_timestamp_seconds ` + controllertest.HelpOf(t, "warren_resource_deletion_timestamp_seconds") + `
# TYPE warren_resource_deletion_timestamp_seconds gauge
warren_resource_deletion_timestamp_seconds{kind="ConsumerQueue",name="deleted",namespace="shop"} 900
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
