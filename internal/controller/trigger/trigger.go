// Package trigger has what starts a reconciliation: annotations that request one, jittered times, predicates and priorities.
package trigger

import (
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// ReconciliationTimeout bounds one reconciliation, with all its requests to the API server and the broker.
const ReconciliationTimeout = 2 * time.Minute

// CacheSyncDelay is how long the cache is given to hear of a status that was written a moment ago.
const CacheSyncDelay = 100 * time.Millisecond

// SpecOrRequest lets pass what is new, has a new generation, or has a new value of the requested-at annotation.
func SpecOrRequest() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return RequestedAt(e.ObjectOld) != RequestedAt(e.ObjectNew) },
	})
}

// RequestedAt is cut to what status.lastHandledReconcileAt may hold.
func RequestedAt(object client.Object) string {
	return conditions.Truncate(object.GetAnnotations()[v1alpha1.RequestedAtAnnotation], 1024)
}

// Jittered spreads what would otherwise come at the same moment: the interval, up to a tenth longer.
func Jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/10+1)
}
