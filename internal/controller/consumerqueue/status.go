package consumerqueue

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/ssa"
)

// updateStatus writes a status as a whole, which costs the API server less than server-side apply; see
// docs/adr/0027-two-writes.md. It fails with a conflict if the resource is not the one that was read or written last: what is
// remembered in a status must not be overwritten from an old copy.
func updateStatus(ctx context.Context, c client.Client, cq *v1alpha1.ConsumerQueue, status v1alpha1.ConsumerQueueStatus) error {
	written := cq.DeepCopy()
	status.DeepCopyInto(&written.Status)
	written.ManagedFields = nil // the API server keeps them itself
	if err := c.Status().Update(ctx, written, ssa.FieldOwner); err != nil {
		return err
	}
	cq.ResourceVersion = written.ResourceVersion
	return nil
}
