package consumerqueue

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// report is what a reconciliation says of a ConsumerQueue: the status, which is written at the end, and the Events that follow
// from what changed in the status.
type report struct {
	cq     *v1alpha1.ConsumerQueue
	status *v1alpha1.ConsumerQueueStatus
	events []occurrence
}

func reportOn(cq *v1alpha1.ConsumerQueue) report { return report{cq: cq, status: cq.Status.DeepCopy()} }

// setConditions writes a verdict into the conditions.
func (r *report) setConditions(v summary) {
	writer := conditions.For(&r.status.Conditions, r.cq.Generation)
	wasReady := r.isReady()
	writer.SetReady(v.ready, v.progress)
	for condition, value := range map[string]*conditions.Value{
		v1alpha1.ConditionDrifted:            v.drifted,
		v1alpha1.ConditionRecreationRequired: v.recreation,
	} {
		if value == nil {
			writer.Keep(condition)
		} else {
			writer.Set(condition, *value)
		}
	}
	if v.inSync() && !wasReady {
		r.setLastSynced()
	}
	if v.drifted != nil && v.drifted.Status == metav1.ConditionUnknown {
		r.setStatesUnknown()
	}
	r.status.ObservedGeneration = r.cq.Generation
}

// setStatesUnknown says of every object that it is not known how it compares, and drops what followed from the comparison;
// which objects there are stays known.
func (r *report) setStatesUnknown() {
	r.status.Changes, r.status.ChangesOmitted, r.status.PlanHash, r.status.Advisories = nil, 0, "", nil
	for i := range r.status.Topology {
		r.status.Topology[i].State = v1alpha1.StateUnknown
	}
}

func (r *report) setLastSynced() {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	r.status.LastSyncedTime = &now
}

// setObservedGeneration says that this generation has been seen, where nothing is compared.
func (r *report) setObservedGeneration() {
	r.status.ObservedGeneration = r.cq.Generation
}

func (r *report) condition(name string) metav1.ConditionStatus {
	for _, condition := range r.status.Conditions {
		if condition.Type == name {
			return condition.Status
		}
	}
	return metav1.ConditionUnknown
}

func (r *report) isReady() bool { return r.condition(v1alpha1.ConditionReady) == metav1.ConditionTrue }

// needsNoRequeue says that nothing is to be reconciled again before the broker or the spec changes.
func (r *report) needsNoRequeue() bool {
	for _, entry := range r.status.Topology {
		if entry.State == v1alpha1.StateForeign || entry.State == v1alpha1.StateOrphaned {
			return false // another ConsumerQueue may come to want it; or it may be safe to delete now
		}
	}
	return r.isReady()
}
