package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// claimant is this resource as its neighbours see it, with what is wanted here and now.
func (l *look) claimant(s *scene) topology.Claimant {
	return topology.Claimant{
		Name: client.ObjectKeyFromObject(l.cq).String(), Created: l.cq.CreationTimestamp.Time,
		Desired: s.desired, Owned: s.owned,
	}
}

// yield says that another ConsumerQueue has the better right. What this one owned stays known.
func (l *look) yield(conflict topology.Conflict) {
	if readyIn(l.status.Conditions).Reason != v1alpha1.ReasonConflict {
		l.event(corev1.EventTypeWarning, eventConflict, "Compare", conflict.Message)
	}
	l.abstain()
	l.conclude(refused(v1alpha1.ReasonConflict, conflict.Message))
}

// claim writes down what this resource takes for its own, before anything is declared: an operator that dies afterwards
// still knows what it has to delete one day. The finalizer comes first, for from then on there is something to delete.
// The conflict is one that came to light only now.
func (l *look) claim(ctx context.Context, s *scene, comparison topology.Comparison, decided plan) (*topology.Conflict, error) {
	entries := remember(comparison.Entries, s.desired.Shapes(), s.known, decided)
	entries, omitted := fitted(entries)
	claims := newlyOwned(entries, s.known)
	if claims || len(s.owned) > 0 {
		if err := l.keepUntilCleanedUp(ctx, s.connection.Owner()); err != nil {
			return nil, err
		}
	}
	if !claims {
		return nil, nil
	}
	l.claiming.Lock()
	defer l.claiming.Unlock()
	near, err := l.neighboursOf(ctx, l.cq, s.place, s.version)
	if err != nil {
		return nil, err
	}
	if conflict, err := l.contest(ctx, l.claimant(s), near, s.place, s.version); err != nil || conflict != nil {
		return conflict, err
	}
	l.status.Topology, l.status.TopologyOmitted = entries, omitted
	if err := l.writeStatus(ctx); err != nil {
		return nil, orOldStatus(err)
	}
	l.cq.Status, l.claimed = *l.status.DeepCopy(), true
	return nil, nil
}

// keepUntilCleanedUp adds the finalizer, if the BrokerConnection of this UID has its own.
func (l *look) keepUntilCleanedUp(ctx context.Context, connection string) error {
	if controllerutil.ContainsFinalizer(l.cq, v1alpha1.TopologyFinalizer) {
		return nil
	}
	if err := l.checkProtected(ctx, connection); err != nil {
		return err
	}
	before := l.cq.DeepCopy()
	controllerutil.AddFinalizer(l.cq, v1alpha1.TopologyFinalizer)
	if err := l.patchMetadata(ctx, before); err != nil {
		return fmt.Errorf("add finalizer: %w", orOldStatus(err))
	}
	return nil
}

// patchMetadata writes what changed of the metadata; it fails if the resource is not the one that was read any more.
func (l *look) patchMetadata(ctx context.Context, before *v1alpha1.ConsumerQueue) error {
	status := l.cq.Status
	err := l.client.Patch(ctx, l.cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	l.cq.Status = status
	return err
}
