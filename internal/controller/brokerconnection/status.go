package brokerconnection

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	ac "github.com/warren-mq/warren/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/ssa"
)

// applyBrokerConnectionStatus writes a status by server-side apply.
func applyBrokerConnectionStatus(
	ctx context.Context, c client.Client, bc *v1alpha1.BrokerConnection, status v1alpha1.BrokerConnectionStatus,
) error {
	configuration := &ac.BrokerConnectionStatusApplyConfiguration{}
	if err := ssa.Convert(status, configuration); err != nil {
		return err
	}
	applied := ac.BrokerConnection(bc.Name, bc.Namespace).WithStatus(configuration)
	body := &client.SubResourceApplyOptions{SubResourceBody: ssa.YAMLSafe{ApplyConfiguration: applied}}
	if err := c.Status().Apply(ctx, applied, body, ssa.FieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	if version := applied.ResourceVersion; version != nil {
		bc.ResourceVersion = *version
	}
	return nil
}
