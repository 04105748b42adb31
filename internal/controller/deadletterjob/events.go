package deadletterjob

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/text"
)

// The reasons of Events on Redrives and Purges, which are recorded on transitions only.
const (
	eventAlreadyFinished = "AlreadyFinished"
	eventStarted         = "Started"
	eventWaiting         = "Waiting"
	eventCompleted       = "Completed"
	eventCancelled       = "Cancelled"
	eventFailed          = "Failed"
)

// recordTransition records an Event if the job has started, begun to wait, or ended.
func (s *scope) recordTransition(before v1alpha1.JobStatus) {
	ready := conditions.Ready(s.status.Conditions)
	was := conditions.Ready(before.Conditions)
	switch {
	case before.CompletionTime != nil: // only the generation is new
	case s.status.CompletionTime != nil && ready.Status != "True":
		s.addEvent(corev1.EventTypeWarning, eventFailed, ready.Message)
	case s.status.CompletionTime != nil && ready.Reason == v1alpha1.ReasonCancelled:
		s.addEvent(corev1.EventTypeNormal, eventCancelled, ready.Message)
	case s.status.CompletionTime != nil && ready.Reason == v1alpha1.ReasonAlreadyFinished:
		s.addEvent(corev1.EventTypeNormal, eventAlreadyFinished, ready.Message)
	case s.status.CompletionTime != nil:
		s.addEvent(corev1.EventTypeNormal, eventCompleted, ready.Message)
	case before.Total == nil && s.status.Total != nil:
		s.addEvent(corev1.EventTypeNormal, eventStarted, ready.Message)
	case before.Total != nil && ready.Reason != was.Reason && isWaiting(ready.Reason):
		s.addEvent(corev1.EventTypeNormal, eventWaiting, ready.Message)
	}
}

// isWaiting reports whether a job with this reason has begun and waits.
func isWaiting(reason string) bool {
	switch reason {
	case v1alpha1.ReasonDestinationMissing, v1alpha1.ReasonDestinationFull, v1alpha1.ReasonDestinationBusy, v1alpha1.ReasonBlocked,
		v1alpha1.ReasonNothingConfirmed, v1alpha1.ReasonSourceMissing:
		return true
	}
	return false
}

func (s *scope) addEvent(eventType, reason, note string) {
	s.Recorder.Eventf(s.before.Object, nil, eventType, reason, string(s.Kind), "%s", text.Truncate(note, 1024))
}

// recordOnConsumerQueue records the outcome as an Event on the ConsumerQueue.
func (s *scope) recordOnConsumerQueue(ctx context.Context) {
	reason, note := s.work.CompletionEvent()
	if reason == "" {
		return
	}
	cq := &v1alpha1.ConsumerQueue{}
	key := client.ObjectKey{Namespace: s.before.GetNamespace(), Name: s.before.ConsumerQueue}
	if err := s.Client.Get(ctx, key, cq); err != nil { // the ConsumerQueue is gone
		return
	}
	s.Recorder.Eventf(cq, s.before.Object, corev1.EventTypeNormal, reason, string(s.Kind), "%s",
		fmt.Sprintf("%s %s: %s", s.Kind, s.before.GetName(), note))
}
