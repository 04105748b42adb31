package consumerqueue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// The reasons of Warren's Events, which are recorded on transitions only.
const (
	eventDeclared            = "Declared"
	eventDriftDetected       = "DriftDetected"
	eventDriftCorrected      = "DriftCorrected"
	eventRecreationRequired  = "RecreationRequired"
	eventConflict            = "Conflict"
	eventRetained            = "Retained"
	eventRepeatedlyDeleted   = "RepeatedlyDeleted"
	eventRecreationPlanned   = "RecreationPlanned"
	eventRecreationStarted   = "RecreationStarted"
	eventQueueSwapped        = "QueueSwapped"
	eventRecreationFinished  = "RecreationFinished"
	eventRecreationBackedOut = "RecreationBackedOut"
	eventRecreationBlocked   = "RecreationBlocked"
	eventConsumersPaused     = "ConsumersPaused"
)

// occurrence is an Event to record after the status that it describes is written.
type occurrence struct {
	kind, reason, action, note string
}

// recordTransitions gathers the Events of a reconciliation from the conditions before it.
func (r *report) recordTransitions(done plan.Plan, before []v1alpha1.Change, outcome summary, applied error) {
	wasDrifted := r.isTrue(v1alpha1.ConditionDrifted)
	isDrifted := outcome.drifted != nil && outcome.drifted.Status == metav1.ConditionTrue
	detected := done.Drift || (isDrifted && r.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport)
	if detected && !wasDrifted {
		r.addEvent(corev1.EventTypeWarning, eventDriftDetected, "Compare", driftNote(before))
	}
	declared := "declared " + done.Summary()
	switch {
	case done.Count() == 0 || (applied != nil && !outcome.inSync()):
	case done.Drift && !isDrifted:
		r.addEvent(corev1.EventTypeNormal, eventDriftCorrected, "Correct", declared+"; the broker matches the spec again")
	case !done.Drift:
		r.addEvent(corev1.EventTypeNormal, eventDeclared, "Declare", declared)
	}
	required := outcome.recreation != nil && outcome.recreation.Status == metav1.ConditionTrue
	switch {
	case !required || r.isTrue(v1alpha1.ConditionRecreationRequired):
	case r.status.Recreation != nil && r.status.Recreation.Phase != "":
		r.addEvent(corev1.EventTypeNormal, eventRecreationPlanned, "Compare", outcome.recreation.Message)
	default:
		r.addEvent(corev1.EventTypeWarning, eventRecreationRequired, "Compare", outcome.recreation.Message)
	}
}

// driftNote lists missing objects. It lists objects to recreate, which have another Event, only if nothing is missing.
func driftNote(changes []v1alpha1.Change) string {
	missing := slices.DeleteFunc(slices.Clone(changes), func(c v1alpha1.Change) bool { return c.Effect == v1alpha1.EffectRecreate })
	if len(missing) == 0 {
		missing = changes
	}
	return describeChanges(missing)
}

func (r *report) addEvent(kind, reason, action, note string) {
	r.events = append(r.events, occurrence{kind, reason, action, note})
}

// recordEvents records the gathered Events. A note may hold 1,024 bytes.
func (s *scope) recordEvents() {
	for _, e := range s.events {
		s.recorder.Eventf(s.cq, nil, e.kind, e.reason, e.action, "%s", text.Truncate(e.note, 1024))
	}
	s.events = nil
}
