package consumerqueue

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// candidate is this resource as its neighbours see it, with what is wanted here and now.
func (v *vhostScope) candidate() ownership.Candidate {
	return ownership.Candidate{
		Name: client.ObjectKeyFromObject(v.cq).String(), Created: v.cq.CreationTimestamp.Time,
		Desired: v.desired, Owned: v.owned,
	}
}

// claim writes down what this resource takes for its own, before anything is declared: an operator that dies afterwards
// still knows what it has to delete one day. The finalizer comes first, for from then on there is something to delete.
// The conflict is one that came to light only now.
func (v *vhostScope) claim(ctx context.Context, comparison plan.Comparison, decided plan.Plan) (*ownership.Conflict, error) {
	entries := plan.MergeInventory(comparison, v.known, decided)
	entries, omitted := fitted(entries)
	claims := plan.HasNewObjects(entries, v.known)
	if claims || len(v.owned) > 0 {
		if err := v.addFinalizer(ctx, v.connection.Owner()); err != nil {
			return nil, err
		}
	}
	if !claims {
		return nil, nil
	}
	release, err := v.claimLock.Acquire(ctx, v.index.ClaimsOf(v.cq))
	if err != nil {
		return nil, err
	}
	defer release()
	if conflict, err := v.peers.FindConflict(ctx, v.candidate(), v.live); err != nil || conflict != nil {
		return conflict, err
	}
	v.status.Topology, v.status.TopologyOmitted = entries, omitted
	if err := v.writeStatus(ctx); err != nil {
		return nil, asStaleCache(err)
	}
	v.cq.Status, v.statusWritten = *v.status.DeepCopy(), true
	return nil, nil
}
