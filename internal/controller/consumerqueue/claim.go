package consumerqueue

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// candidate is this resource as its neighbours see it, with what is wanted here and now.
func (l *scope) candidate(s *vhostScope) ownership.Candidate {
	return ownership.Candidate{
		Name: client.ObjectKeyFromObject(l.cq).String(), Created: l.cq.CreationTimestamp.Time,
		Desired: s.desired, Owned: s.owned,
	}
}

// markConflict says that another ConsumerQueue has the better right. What this one owned stays known.
func (l *scope) markConflict(conflict ownership.Conflict) {
	if conditions.Ready(l.status.Conditions).Reason != v1alpha1.ReasonConflict {
		l.addEvent(corev1.EventTypeWarning, eventConflict, "Compare", conflict.Message)
	}
	l.cancelPruning()
	l.setConditions(summaryOfRefusal(v1alpha1.ReasonConflict, conflict.Message))
}

// claim writes down what this resource takes for its own, before anything is declared: an operator that dies afterwards
// still knows what it has to delete one day. The finalizer comes first, for from then on there is something to delete.
// The conflict is one that came to light only now.
func (l *scope) claim(ctx context.Context, s *vhostScope, comparison plan.Comparison, decided plan.Plan) (*ownership.Conflict, error) {
	entries := plan.MergeInventory(comparison, s.known, decided)
	entries, omitted := fitted(entries)
	claims := plan.HasNewObjects(entries, s.known)
	if claims || len(s.owned) > 0 {
		if err := l.addFinalizer(ctx, s.connection.Owner()); err != nil {
			return nil, err
		}
	}
	if !claims {
		return nil, nil
	}
	release, err := l.claimLock.Acquire(ctx, l.index.ClaimsOf(l.cq))
	if err != nil {
		return nil, err
	}
	defer release()
	if conflict, err := s.peers.FindConflict(ctx, l.candidate(s), l.live); err != nil || conflict != nil {
		return conflict, err
	}
	l.status.Topology, l.status.TopologyOmitted = entries, omitted
	if err := l.writeStatus(ctx); err != nil {
		return nil, asStaleCache(err)
	}
	l.cq.Status, l.statusWritten = *l.status.DeepCopy(), true
	return nil, nil
}

// addFinalizer adds the finalizer, if the BrokerConnection of this UID has its own.
func (l *scope) addFinalizer(ctx context.Context, connection string) error {
	if controllerutil.ContainsFinalizer(l.cq, v1alpha1.TopologyFinalizer) {
		return nil
	}
	if err := l.checkProtected(ctx, connection); err != nil {
		return err
	}
	before := l.cq.DeepCopy()
	controllerutil.AddFinalizer(l.cq, v1alpha1.TopologyFinalizer)
	if err := l.patchMetadata(ctx, before); err != nil {
		return fmt.Errorf("add finalizer: %w", asStaleCache(err))
	}
	return nil
}

// patchMetadata writes what changed of the metadata; it fails if the resource is not the one that was read any more.
func (l *scope) patchMetadata(ctx context.Context, before *v1alpha1.ConsumerQueue) error {
	status := l.cq.Status
	err := l.client.Patch(ctx, l.cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	l.cq.Status = status
	return err
}
