package conditions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/metrics"
)

// Tally counts the resources of a kind by their conditions, for metrics.
type Tally struct {
	kind   string
	counts map[tallied]int
}

type tallied struct{ namespace, condition, status, reason string }

// NewTally returns an empty Tally.
func NewTally(kind string) *Tally { return &Tally{kind, map[tallied]int{}} }

// Add counts a resource. It emits when conditions that need attention began, and when the deletion was requested.
func (t *Tally) Add(emit metrics.Emit, object client.Object, all []metav1.Condition) {
	suspended := meta.IsStatusConditionTrue(all, v1alpha1.ConditionSuspended)
	for _, c := range all {
		t.counts[tallied{object.GetNamespace(), c.Type, string(c.Status), c.Reason}]++
		if needsAttention(c, suspended) {
			metrics.ConditionSince.EmitTime(emit, began(c, object),
				t.kind, object.GetNamespace(), object.GetName(), c.Type, string(c.Status), c.Reason)
		}
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		metrics.DeletionTime.EmitTime(emit, deleted.Time, t.kind, object.GetNamespace(), object.GetName())
	}
}

// began returns when a condition got its status. The API server creates Ready as Unknown with the time 0, which stays until Ready
// becomes True or False.
func began(c metav1.Condition, object client.Object) time.Time {
	if c.LastTransitionTime.Unix() == 0 {
		return object.GetCreationTimestamp().Time
	}
	return c.LastTransitionTime.Time
}

// needsAttention reports whether a user should learn of a condition. While a resource is suspended, its other conditions are old.
func needsAttention(c metav1.Condition, suspended bool) bool {
	if suspended {
		return c.Type == v1alpha1.ConditionSuspended
	}
	switch c.Type {
	case v1alpha1.ConditionReady:
		return c.Status != metav1.ConditionTrue
	case v1alpha1.ConditionReconciling:
		return false // which Ready tells as well
	}
	return c.Status == metav1.ConditionTrue
}

// Emit emits the counts.
func (t *Tally) Emit(emit metrics.Emit) {
	for by, count := range t.counts {
		metrics.Resources.Emit(emit, float64(count), t.kind, by.namespace, by.condition, by.status, by.reason)
	}
}
