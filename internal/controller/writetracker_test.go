package controller

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// A status that is left and comes back while the cache still has its first version is written a second time.
func TestFinishWithAnOldCache(t *testing.T) {
	t.Parallel()
	c := testClient(t, consumerQueue(t, `{}`))
	r := &ConsumerQueueReconciler{client: c, live: c, recorder: &eventLog{}}
	cached := &v1alpha1.ConsumerQueue{}
	equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(consumerQueue(t, `{}`)), cached))
	finish := func(advisories ...v1alpha1.Advisory) error {
		l := &look{ConsumerQueueReconciler: r, cq: cached.DeepCopy(), status: cached.Status.DeepCopy()}
		l.status.Advisories = advisories
		return l.finish(t.Context())
	}
	equal(t, "an unchanged status", nil, finish())
	equal(t, "a new advisory", nil, finish(v1alpha1.Advisory{Code: v1alpha1.AdvisoryFenced, Name: "orders", Message: "refuses"}))
	equal(t, "the advisory is gone, the cache has not heard of it", errOldStatus, finish(), comparingErrors)
	equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(cached), cached))
	equal(t, "the cache has heard of it", nil, finish())
	equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(cached), cached))
	equal(t, "advisories", 0, len(cached.Status.Advisories))
}

// The same for a BrokerConnection.
func TestReconcileABrokerConnectionWithAnOldCache(t *testing.T) {
	t.Parallel()
	bc := connectedTo("shop", "default", "rabbit@a", "/")
	bc.Spec.SecretRef = &v1alpha1.SecretReference{Name: "gone"}
	bc.Finalizers = []string{v1alpha1.ConnectionFinalizer}
	var old *v1alpha1.BrokerConnection
	builder := testClientBuilder(t, bc).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if into, ok := object.(*v1alpha1.BrokerConnection); ok && old != nil {
				old.DeepCopyInto(into)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	c := builder.Build()
	r, request := testBrokerConnections(c), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(bc)}
	_, err := r.Reconcile(t.Context(), request)
	equal(t, "error", nil, err)
	settled := &v1alpha1.BrokerConnection{}
	equal(t, "error", nil, c.Get(t.Context(), request.NamespacedName, settled))

	changed := settled.DeepCopy()
	changed.Status.Conditions = []metav1.Condition{}
	_, err = r.finish(t.Context(), settled.DeepCopy(), changed.Status, ctrl.Result{})
	equal(t, "error", nil, err)
	old = settled
	result, err := r.Reconcile(t.Context(), request)
	equal(t, "error", nil, err)
	equal(t, "is reconciled again soon", true, result.RequeueAfter > 0 && result.RequeueAfter <= 2*cacheDelay)
}
