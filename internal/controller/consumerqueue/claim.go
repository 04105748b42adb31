package consumerqueue

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// candidate returns this resource for a comparison with its peers, with its desired topology.
func (v *vhostScope) candidate() ownership.Candidate {
	return ownership.Candidate{
		Name: v.key().String(), Created: v.cq.CreationTimestamp.Time,
		Desired: v.desired, Owned: v.owned, Consents: topology.ConsentsOf(v.cq),
	}
}

// claim records the claims of this resource before anything is declared, so that a deletion after a crash knows them. A new resource gets
// its finalizer in the same write, an older resource before that write. claim checks for conflicts while it holds the lock.
func (v *vhostScope) claim(ctx context.Context, comparison plan.Comparison, decided plan.Plan) (*ownership.Conflict, error) {
	entries := plan.MergeInventory(comparison, v.known, decided)
	entries, omitted := truncated(entries)
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
	// Another ConsumerQueue may have held the lock before, and Warren may have matched its connection only after this reconciliation began.
	// The first view then did not know the location of that ConsumerQueue.
	if v.peers, err = v.view(ctx, v.cq, v.connection, v.location, v.version); err != nil {
		return nil, err
	}
	if conflict, err := v.peers.FindConflict(ctx, v.candidate(), peerReader{v.live, v.Reconciler}); err != nil || conflict != nil {
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
	return nil, v.writeClaim(ctx)
}

// writeIntents gives a new resource its finalizer and its intents annotation in one patch. It returns false if the status must
// record the intents: the resource is not new, has too many objects, or has other annotations that leave no room. The cache does not have
// those annotations, so the API server decides.
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
	err = v.client.Patch(ctx, now, client.RawPatch(types.MergePatchType, patch), statuswriter.FieldOwner)
	if apierrors.IsInvalid(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write finalizer and intents: %w", asStaleCache(err))
	}
	v.statuses.Record(now)
	v.claimWritten = ownership.RestoreIntents(now)
	now.DeepCopyInto(v.cq)
	return v.claimWritten, nil // false if a client wrote the status earlier; see ownership.RestoreIntents
}
