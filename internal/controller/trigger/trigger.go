// Package trigger starts reconciliations: by annotations that request one, jittered intervals, predicates and priorities.
package trigger

import (
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
)

// ReconciliationTimeout limits one reconciliation, with all its requests to the API server and the broker.
const ReconciliationTimeout = 2 * time.Minute

// CacheSyncDelay is how long the cache may take to receive a status that was just written.
const CacheSyncDelay = 100 * time.Millisecond

// SpecOrRequest passes new objects, new generations, and new values of the requested-at annotation.
func SpecOrRequest() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return RequestedAt(e.ObjectOld) != RequestedAt(e.ObjectNew) },
	})
}

// OnUpdate passes updates for which changed returns true, and no other events.
func OnUpdate(changed func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) },
	}
}

// RequestedAt returns the value of the annotation, cut to the length of status.lastHandledReconcileAt.
func RequestedAt(object client.Object) string {
	return text.Truncate(object.GetAnnotations()[v1alpha1.RequestedAtAnnotation], 1024)
}

// Jittered returns the interval plus up to a tenth, so that many resources do not run at the same moment.
func Jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/10+1)
}
