package controller

import (
	"math/rand/v2"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// reconciliationTimeout bounds one reconciliation, with all its requests to the API server and the broker.
const reconciliationTimeout = 2 * time.Minute

// cacheDelay is how long the cache is given to hear of a status that was written a moment ago.
const cacheDelay = 100 * time.Millisecond

// specOrRequest lets pass what is new, has a new generation, or has a new value of the requested-at annotation.
func specOrRequest() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return requestedAt(e.ObjectOld) != requestedAt(e.ObjectNew) },
	})
}

// requestedAt is cut to what status.lastHandledReconcileAt may hold.
func requestedAt(object client.Object) string {
	return shortened(object.GetAnnotations()[v1alpha1.RequestedAtAnnotation], 1024)
}

// jittered spreads what would otherwise come at the same moment: the interval, up to a tenth longer.
func jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/10+1)
}
