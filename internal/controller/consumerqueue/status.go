package consumerqueue

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	ac "github.com/warren-mq/warren/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/ssa"
)

// applyConsumerQueueStatus writes a status by server-side apply. It fails with a conflict if the resource is not the one
// that was read or written last: what is remembered in a status must not be overwritten from an old copy.
func applyConsumerQueueStatus(ctx context.Context, c client.Client, cq *v1alpha1.ConsumerQueue, status v1alpha1.ConsumerQueueStatus) error {
	configuration := &ac.ConsumerQueueStatusApplyConfiguration{}
	if err := ssa.Convert(status, configuration); err != nil {
		return err
	}
	applied := ac.ConsumerQueue(cq.Name, cq.Namespace).WithResourceVersion(cq.ResourceVersion).WithStatus(configuration)
	body := &client.SubResourceApplyOptions{SubResourceBody: ssa.YAMLSafe{ApplyConfiguration: applied}}
	if err := c.Status().Apply(ctx, applied, body, ssa.FieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	if version := applied.ResourceVersion; version != nil { // the answer of the API server is in it
		cq.ResourceVersion = *version
	}
	return nil
}
