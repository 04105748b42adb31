package redrive

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// takeTurn takes the turn at the dead-letter queue. If the Redrive has to wait, why says for whom.
func (s *scope) takeTurn(ctx context.Context, m move) (why string, queued bool, err error) {
	list := &v1alpha1.RedriveList{}
	err = s.client.List(ctx, list, client.InNamespace(s.redrive.Namespace),
		client.MatchingFields{IndexConsumerQueue: s.redrive.Spec.ConsumerQueueRef.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", false, fmt.Errorf("list Redrives: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.ConsumerQueueRef == s.redrive.Spec.ConsumerQueueRef && wantsTurn(other) && isBefore(other, s.redrive) {
			s.tasks.await(s.key())
			return fmt.Sprintf("Redrive %q comes first, and has not ended", other.Name), true, nil
		}
	}
	rival, granted := s.tasks.claim(s.key(), s.redrive.UID, m.turn)
	switch {
	case granted:
		return "", false, nil
	case rival.Name == "":
		return fmt.Sprintf("%d Redrives move messages through BrokerConnection %q", turnsOfConnection, m.turn.connection.Name), true, nil
	case rival.Namespace != s.redrive.Namespace:
		return fmt.Sprintf("a Redrive in another namespace moves messages of queue %q", m.turn.queue), true, nil
	}
	return fmt.Sprintf("Redrive %q moves messages of queue %q", rival.Name, m.turn.queue), true, nil
}

// wantsTurn says whether a Redrive will move messages as soon as it can.
func wantsTurn(redrive *v1alpha1.Redrive) bool {
	return redrive.Status.CompletionTime == nil && redrive.DeletionTimestamp.IsZero() && !isSet(redrive.Spec.Suspend) &&
		!meta.IsStatusConditionTrue(redrive.Status.Conditions, v1alpha1.ConditionStalled) &&
		!meta.IsStatusConditionTrue(redrive.Status.Conditions, v1alpha1.ConditionSuspended)
}

// isBefore says whether one Redrive has its turn before another: the one that has begun, else the older one.
func isBefore(one, other *v1alpha1.Redrive) bool {
	if begun := one.Status.Total != nil; begun != (other.Status.Total != nil) {
		return begun
	}
	return cmp.Or(one.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(one.Name, other.Name)) < 0
}
