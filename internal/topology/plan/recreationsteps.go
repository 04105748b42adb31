package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// Outcome is how the work of a phase ended.
type Outcome string

// The outcomes of the work of a phase.
const (
	// PhaseDone: the phase is complete.
	PhaseDone Outcome = "Done"
	// PhaseFailed: the connection or the broker failed; Warren repeats the phase.
	PhaseFailed Outcome = "Failed"
	// PhaseMessagesCame: after the queue was emptied, messages were published to it by its name.
	PhaseMessagesCame Outcome = "MessagesCame"
	// PhaseConsumersCame: a consumer subscribed to the queue.
	PhaseConsumersCame Outcome = "ConsumersCame"
	// PhaseSourceInUse: another queue that dead-letters to the queue at most once has messages or consumers.
	PhaseSourceInUse Outcome = "SourceInUse"
	// PhaseNotEmpty: the queue holds messages, so it could not be proven empty.
	PhaseNotEmpty Outcome = "NotEmpty"
	// PhaseUnproven: the queue could not be proven empty, although no message was found in it.
	PhaseUnproven Outcome = "Unproven"
	// PhaseRefused: the recreation is not possible, and waiting does not help.
	PhaseRefused Outcome = "Refused"
)

// PhaseEnd is the Outcome of a phase with the facts that NextStep needs.
type PhaseEnd struct {
	Outcome Outcome
	// Message is the reason, for users.
	Message string
	// WithoutHold: nothing is bound to the queue, so it has no hold queue, and its messages are not moved.
	WithoutHold bool
	// Accepts: messages that come past the bindings are moved; see spec.recreation.publishersPastBindings.
	Accepts bool
	// Settled: spec.recreation.settleTimeout has passed since the queue was first emptied.
	Settled bool
}

// NextStep decides how a recreation continues when the work of its phase has ended. It returns the status to write before the next
// work begins, and whether the recreation is over. Once a delete may have been sent, a recreation is never backed out.
func NextStep(status v1alpha1.RecreationStatus, ended PhaseEnd) (next v1alpha1.RecreationStatus, over bool) {
	switch ended.Outcome {
	case PhaseDone:
		if status.Phase == v1alpha1.RecreationGivingBack {
			return status, true
		}
		status.Phase = phaseAfter(status.Phase, ended.WithoutHold)
	case PhaseConsumersCame:
		return BackOut(status, v1alpha1.BackOutConsumersCameBack, ended.Message), false
	case PhaseSourceInUse:
		return BackOut(status, v1alpha1.BackOutDeadLetterSourceInUse, ended.Message), false
	case PhaseRefused:
		return BackOut(status, v1alpha1.BackOutRefused, ended.Message), false
	case PhaseMessagesCame:
		return afterMessagesCame(status, ended), false
	case PhaseNotEmpty, PhaseUnproven:
		switch {
		case ended.Settled:
			return BackOut(status, v1alpha1.BackOutNotProven, ended.Message), false
		case ended.Outcome == PhaseNotEmpty && status.Phase == v1alpha1.RecreationSwapping && !ended.WithoutHold:
			return emptiedAgain(status), false
		}
	}
	return status, false
}

func afterMessagesCame(status v1alpha1.RecreationStatus, ended PhaseEnd) v1alpha1.RecreationStatus {
	switch {
	case ended.WithoutHold:
		return BackOut(status, v1alpha1.BackOutMessagesCame, ended.Message)
	case ended.Settled || !ended.Accepts:
		return BackOut(status, v1alpha1.BackOutPublishersPastBindings, ended.Message)
	}
	return emptiedAgain(status)
}

// emptiedAgain returns the status after the queue received messages. Emptying comes next, or Swapping if Emptying has just moved
// them. After a delete was sent, Swapping continues, because no messages can be moved until the delete has ended.
func emptiedAgain(status v1alpha1.RecreationStatus) v1alpha1.RecreationStatus {
	switch {
	case status.Phase == v1alpha1.RecreationEmptying:
		status.Phase = v1alpha1.RecreationSwapping
	case !status.DeleteSent:
		status.Phase = v1alpha1.RecreationEmptying
	}
	return status
}

func phaseAfter(phase v1alpha1.RecreationPhase, withoutHold bool) v1alpha1.RecreationPhase {
	switch {
	case phase == v1alpha1.RecreationDiverting && !withoutHold:
		return v1alpha1.RecreationEmptying
	case phase == v1alpha1.RecreationSwapping:
		return v1alpha1.RecreationGivingBack
	}
	return v1alpha1.RecreationSwapping
}

// BackOut makes a recreation under way restore the old queue, unless a delete may have been sent.
func BackOut(status v1alpha1.RecreationStatus, reason, message string) v1alpha1.RecreationStatus {
	if !status.IsUnderWay() || !status.MayBeAborted() {
		return status
	}
	status.Phase, status.BackOutReason, status.BackOutMessage = v1alpha1.RecreationGivingBack, reason, message
	return status
}

// Planned returns the status of a recreation that has not begun. A recreation of the same queue to the same arguments keeps its
// id, its pause, and the counts of its attempts and pauses. Any other recreation gets a new id, counts from zero, and ends the pause.
func Planned(former *v1alpha1.RecreationStatus, queue topology.Queue, newID func() string) v1alpha1.RecreationStatus {
	planned := v1alpha1.RecreationStatus{
		Queue: queue.Name, Phase: v1alpha1.RecreationWaiting, NewArguments: queue.Arguments.JSON(),
	}
	if former != nil {
		planned.ApprovedPlanHash, planned.ApprovedGeneration = former.ApprovedPlanHash, former.ApprovedGeneration
		planned.Pause = former.Pause
		if former.Queue == planned.Queue && former.NewArguments == planned.NewArguments {
			planned.ID, planned.LastResult = former.ID, former.LastResult
			planned.Attempts, planned.AttemptsGeneration, planned.Pauses = former.Attempts, former.AttemptsGeneration, former.Pauses
		}
	}
	if planned.ID == "" {
		planned.ID = newID()
		planned.EndPause()
	}
	return planned
}

// Finished returns the status of a recreation that ended. The next attempt after a recreation that was backed out gets a new id. A delete
// of the old hold queue may still be running, and must not find the next hold queue.
func Finished(status v1alpha1.RecreationStatus, at metav1.Time) v1alpha1.RecreationStatus {
	result := v1alpha1.RecreationResult{ID: status.ID, Queue: status.Queue, Result: v1alpha1.RecreationCompleted, Time: at}
	left := v1alpha1.RecreationStatus{
		ApprovedPlanHash: status.ApprovedPlanHash, ApprovedGeneration: status.ApprovedGeneration, Pause: status.Pause,
	}
	left.EndPause()
	if status.BackOutReason != "" {
		result.Result, result.Reason, result.Message = v1alpha1.RecreationBackedOut, status.BackOutReason, status.BackOutMessage
		left.Queue, left.NewArguments, left.Pauses = status.Queue, status.NewArguments, status.Pauses
		left.Attempts, left.AttemptsGeneration = status.Attempts, status.AttemptsGeneration
		if countsAsAttempt(status.BackOutReason) {
			left.Attempts++
		}
	}
	left.LastResult = &result
	return left
}

// Found is the state of a recreation at the broker after its status was lost.
type Found struct {
	// Fenced: a fence matches the queue, so a delete may be running.
	Fenced bool
	// Exists: the queue exists. IsNew: it has the new arguments.
	Exists, IsNew bool
}

// Recovered completes the status of a recreation whose status was lost, with a phase that cannot lose a message.
func Recovered(status v1alpha1.RecreationStatus, found Found) v1alpha1.RecreationStatus {
	switch {
	case found.Fenced && !found.IsNew:
		status.Phase, status.DeleteSent = v1alpha1.RecreationSwapping, true
	case found.Exists && (!found.IsNew || found.Fenced): // it may be the old one with the wanted arguments
		status.Phase = v1alpha1.RecreationGivingBack
		status.BackOutReason, status.BackOutMessage = v1alpha1.BackOutStatusLost, "the status was lost"
	default:
		status.Phase = v1alpha1.RecreationGivingBack
	}
	return status
}

func countsAsAttempt(reason string) bool {
	return slices.Contains([]string{
		v1alpha1.BackOutPublishersPastBindings, v1alpha1.BackOutNotProven, v1alpha1.BackOutRefused,
	}, reason)
}

// DescribeWork describes the current work of a recreation for messages.
func DescribeWork(status v1alpha1.RecreationStatus) string {
	queue := fmt.Sprintf("queue %q", status.Queue)
	var parts []string
	switch status.Phase {
	case v1alpha1.RecreationDiverting:
		parts = append(parts, fmt.Sprintf("Warren moves the bindings of %s to queue %q", queue, status.Hold))
	case v1alpha1.RecreationEmptying:
		parts = append(parts, fmt.Sprintf("Warren moves the messages of %s to queue %q", queue, status.Backlog))
	case v1alpha1.RecreationSwapping:
		parts = append(parts, "Warren proves "+queue+" empty, deletes it and declares it again")
	case v1alpha1.RecreationGivingBack:
		parts = append(parts, "Warren moves the messages and bindings back to "+queue)
	}
	if status.BackOutReason != "" {
		stays := "the old queue stays: "
		if status.BackOutReason == v1alpha1.BackOutStatusLost {
			stays = "the queue stays as it is: " // it may be the new one
		}
		parts = append(parts, stays+cmp.Or(status.BackOutMessage, status.BackOutReason))
	}
	return strings.Join(parts, "; ")
}
