package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	ac "github.com/warren-mq/warren/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// applyConsumerQueueStatus writes a status by server-side apply. It fails with a conflict if the resource is not the one
// that was read or written last: what is remembered in a status must not be overwritten from an old copy.
func applyConsumerQueueStatus(ctx context.Context, c client.Client, cq *v1alpha1.ConsumerQueue, status v1alpha1.ConsumerQueueStatus) error {
	configuration := &ac.ConsumerQueueStatusApplyConfiguration{}
	if err := convert(status, configuration); err != nil {
		return err
	}
	applied := ac.ConsumerQueue(cq.Name, cq.Namespace).WithResourceVersion(cq.ResourceVersion).WithStatus(configuration)
	body := &client.SubResourceApplyOptions{SubResourceBody: yamlSafe{applied}}
	if err := c.Status().Apply(ctx, applied, body, fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	if version := applied.ResourceVersion; version != nil { // the answer of the API server is in it
		cq.ResourceVersion = *version
	}
	return nil
}

// applyBrokerConnectionStatus writes a status by server-side apply.
func applyBrokerConnectionStatus(
	ctx context.Context, c client.Client, bc *v1alpha1.BrokerConnection, status v1alpha1.BrokerConnectionStatus,
) error {
	configuration := &ac.BrokerConnectionStatusApplyConfiguration{}
	if err := convert(status, configuration); err != nil {
		return err
	}
	applied := ac.BrokerConnection(bc.Name, bc.Namespace).WithStatus(configuration)
	body := &client.SubResourceApplyOptions{SubResourceBody: yamlSafe{applied}}
	if err := c.Status().Apply(ctx, applied, body, fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	if version := applied.ResourceVersion; version != nil {
		bc.ResourceVersion = *version
	}
	return nil
}

// convert brings a status into the form of its apply configuration, which has the same fields as pointers.
func convert(status, configuration any) error {
	text, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if err := json.Unmarshal(text, configuration); err != nil {
		return fmt.Errorf("decode status: %w", err)
	}
	return nil
}
