package redrive

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// The reasons of Events on Redrives. They are recorded on transitions only.
const (
	eventStarted   = "Started"
	eventWaiting   = "Waiting"
	eventCompleted = "Completed"
	eventCancelled = "Cancelled"
	eventFailed    = "Failed"
	// eventRedriven is recorded on the ConsumerQueue.
	eventRedriven = "Redriven"
)

// recordTransition records an Event if the Redrive does something else than a status from before says.
func (s *scope) recordTransition(before v1alpha1.RedriveStatus) {
	ready := conditions.Ready(s.status.Conditions)
	was := conditions.Ready(before.Conditions)
	switch {
	case s.status.CompletionTime != nil && ready.Status != "True":
		s.addEvent(corev1.EventTypeWarning, eventFailed, ready.Message)
	case s.status.CompletionTime != nil && ready.Reason == v1alpha1.ReasonCancelled:
		s.addEvent(corev1.EventTypeNormal, eventCancelled, ready.Message)
	case s.status.CompletionTime != nil:
		s.addEvent(corev1.EventTypeNormal, eventCompleted, ready.Message)
	case before.Total == nil && s.status.Total != nil:
		s.addEvent(corev1.EventTypeNormal, eventStarted, ready.Message)
	case ready.Reason != was.Reason && isWaiting(ready.Reason):
		s.addEvent(corev1.EventTypeNormal, eventWaiting, ready.Message)
	}
}

// isWaiting says whether a Redrive with this reason has begun and waits.
func isWaiting(reason string) bool {
	switch reason {
	case v1alpha1.ReasonDestinationMissing, v1alpha1.ReasonDestinationFull, v1alpha1.ReasonDestinationBusy, v1alpha1.ReasonBlocked,
		v1alpha1.ReasonSourceMissing:
		return true
	}
	return false
}

func (s *scope) addEvent(eventType, reason, note string) {
	s.recorder.Eventf(s.redrive, nil, eventType, reason, "Redrive", "%s", conditions.Truncate(note, 1024))
}

// tellConsumerQueue has an Event say on the ConsumerQueue how many of its dead letters were moved.
func (s *scope) tellConsumerQueue(ctx context.Context) {
	moved := number(s.status.Moved)
	if moved == 0 || isSet(s.redrive.Spec.DryRun) {
		return
	}
	cq := &v1alpha1.ConsumerQueue{}
	key := client.ObjectKey{Namespace: s.redrive.Namespace, Name: s.redrive.Spec.ConsumerQueueRef.Name}
	if err := s.client.Get(ctx, key, cq); err != nil { // it is gone
		return
	}
	s.recorder.Eventf(cq, s.redrive, corev1.EventTypeNormal, eventRedriven, "Redrive", "%s",
		fmt.Sprintf("Redrive %s: %s", s.redrive.Name, tally(s.status, "moved")))
}
