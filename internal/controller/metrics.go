package controller

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/warren-mq/warren/internal/metrics"
)

// addMetrics serves the metrics of Warren. It serves the sources only while this manager leads. Other managers have a cache, too, and would
// count each resource again.
func addMetrics(mgr ctrl.Manager, sources ...metrics.Source) error {
	if err := metrics.Register(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	collector := metrics.NewCollector(sources...)
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if err := ctrlmetrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
		<-ctx.Done()
		ctrlmetrics.Registry.Unregister(collector)
		return nil
	}))
}
