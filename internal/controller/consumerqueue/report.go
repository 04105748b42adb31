package consumerqueue

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// report is what a reconciliation reports: the status, which is written at the end, and the Events that follow from its changes.
type report struct {
	cq     *v1alpha1.ConsumerQueue
	status *v1alpha1.ConsumerQueueStatus
	events []occurrence
}

func reportOn(cq *v1alpha1.ConsumerQueue) report { return report{cq: cq, status: cq.Status.DeepCopy()} }

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

// setStatesUnknown marks the state of each object as Unknown, and removes the other results of the comparison. It keeps the list of
// objects.
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

// setObservedGeneration records this generation without a comparison.
func (r *report) setObservedGeneration() {
	r.status.ObservedGeneration = r.cq.Generation
}

func (r *report) isTrue(condition string) bool {
	return meta.IsStatusConditionTrue(r.status.Conditions, condition)
}

func (r *report) isReady() bool { return r.isTrue(v1alpha1.ConditionReady) }

// needsNoRequeue reports whether only a change at the broker or of the spec needs another reconciliation.
func (r *report) needsNoRequeue() bool {
	for _, entry := range r.status.Topology {
		if entry.State == v1alpha1.StateForeign || entry.State == v1alpha1.StateOrphaned {
			return false // another ConsumerQueue may want it, or it may be safe to delete now
		}
	}
	return r.isReady()
}
