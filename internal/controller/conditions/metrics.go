package conditions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/metrics"
)

// Counts holds how many resources of a kind have a condition, for metrics.
type Counts struct {
	kind   string
	counts map[countKey]int
}

type countKey struct{ namespace, condition, status, reason string }

// NewCounts returns an empty Counts.
func NewCounts(kind string) *Counts { return &Counts{kind, map[countKey]int{}} }

// Add counts a resource. It emits when conditions that need attention began, and when the deletion was requested.
func (c *Counts) Add(emit metrics.Emit, object client.Object, all []metav1.Condition) {
	suspended := meta.IsStatusConditionTrue(all, v1alpha1.ConditionSuspended)
	for _, condition := range all {
		c.counts[countKey{object.GetNamespace(), condition.Type, string(condition.Status), condition.Reason}]++
		if needsAttention(condition, suspended) {
			metrics.ConditionSince.EmitTime(emit, began(condition, object),
				c.kind, object.GetNamespace(), object.GetName(), condition.Type, string(condition.Status), condition.Reason)
		}
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		metrics.DeletionTime.EmitTime(emit, deleted.Time, c.kind, object.GetNamespace(), object.GetName())
	}
}

// began returns when a condition got its status. For a Ready that was never True or False, whose transition time is 0, it returns when the
// resource was created.
func began(c metav1.Condition, object client.Object) time.Time {
	if c.LastTransitionTime.Unix() == 0 {
		return object.GetCreationTimestamp().Time
	}
	return c.LastTransitionTime.Time
}

// needsAttention reports whether a user should know about a condition. While a resource is suspended, its other conditions are outdated.
func needsAttention(c metav1.Condition, suspended bool) bool {
	if suspended {
		return c.Type == v1alpha1.ConditionSuspended
	}
	switch c.Type {
	case v1alpha1.ConditionReady:
		return c.Status != metav1.ConditionTrue
	case v1alpha1.ConditionReconciling:
		return false // Ready already reports it, with the same reason
	}
	return c.Status == metav1.ConditionTrue
}

// Emit emits the counts.
func (c *Counts) Emit(emit metrics.Emit) {
	for by, count := range c.counts {
		metrics.Resources.Emit(emit, float64(count), c.kind, by.namespace, by.condition, by.status, by.reason)
	}
}
