package consumerqueue

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// candidate is this resource as its neighbours see it, with what is wanted here and now.
func (v *vhostScope) candidate() ownership.Candidate {
	return ownership.Candidate{
		Name: client.ObjectKeyFromObject(v.cq).String(), Created: v.cq.CreationTimestamp.Time,
		Desired: v.desired, Owned: v.owned, Consents: topology.ConsentsOf(v.cq),
	}
}

// claim writes down what this resource takes for its own, before anything is declared: an operator that dies afterwards
// still knows what it has to delete one day. A new resource gets its finalizer by the same write; otherwise the finalizer comes
// first, for from then on there is something to delete. The conflict is one that came to light only now.
func (v *vhostScope) claim(ctx context.Context, comparison plan.Comparison, decided plan.Plan) (*ownership.Conflict, error) {
	entries := plan.MergeInventory(comparison, v.known, decided)
	entries, omitted := fitted(entries)
	if !plan.HasNewObjects(entries, v.known) {
		if len(v.owned) > 0 {
			return nil, v.addFinalizer(ctx, v.connection.Owner())
		}
		return nil, nil
	}
	release, err := v.claimLock.Acquire(ctx, v.index.ClaimsOf(v.cq))
	if err != nil {
		return nil, err
	}
	defer release()
	// Who held the lock before may have been matched only after this reconciliation began.
	if v.peers, err = v.view(ctx, v.cq, v.connection, v.location, v.version); err != nil {
		return nil, err
	}
	if conflict, err := v.peers.FindConflict(ctx, v.candidate(), rivalReader{v.live, v.Reconciler}); err != nil || conflict != nil {
		return conflict, err
	}
	written := false
	if omitted == 0 {
		written, err = v.writeIntents(ctx, entries)
	}
	if err == nil {
		err = v.addFinalizer(ctx, v.connection.Owner())
	}
	if err != nil {
		return nil, err
	}
	v.status.Topology, v.status.TopologyOmitted = entries, omitted
	if written {
		return nil, nil
	}
	if err := v.writeStatus(ctx); err != nil {
		return nil, asStaleCache(err)
	}
	v.cq.Status, v.claimWritten = *v.status.DeepCopy(), true
	return nil, nil
}

// writeIntents gives a new resource its finalizer and the annotation that says what it is about to have declared, in one patch. It
// returns false if the status has to say that: the resource is not new, or has too many objects.
func (v *vhostScope) writeIntents(ctx context.Context, entries []v1alpha1.TopologyEntry) (written bool, err error) {
	wanted := v.cq.DeepCopy()
	if !controllerutil.AddFinalizer(wanted, v1alpha1.TopologyFinalizer) ||
		!ownership.AnnotateIntents(wanted, v.location, entries) {
		return false, nil
	}
	if err := v.checkProtected(ctx, v.connection.Owner()); err != nil {
		return false, err
	}
	patch, err := client.MergeFromWithOptions(v.cq, client.MergeFromWithOptimisticLock{}).Data(wanted)
	if err != nil {
		return false, fmt.Errorf("make patch: %w", err)
	}
	now := &v1alpha1.ConsumerQueue{}
	now.Namespace, now.Name = v.cq.Namespace, v.cq.Name
	if err := v.client.Patch(ctx, now, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return false, fmt.Errorf("write finalizer and intents: %w", asStaleCache(err))
	}
	v.statuses.Record(now)
	v.claimWritten = ownership.RestoreIntents(now)
	now.DeepCopyInto(v.cq)
	return v.claimWritten, nil // otherwise the status was written before, and lost
}
