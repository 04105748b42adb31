package consumerqueue

import (
	"fmt"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
)

// BenchmarkStartUp reconciles 3,000 ConsumerQueues in sync, as a manager does after its start. They share a dead-letter
// exchange and queue, or each has its own. In both cases the fake API server needs most of the CPU time.
func BenchmarkStartUp(b *testing.B) {
	for name, spec := range map[string]string{
		"shared": `{queue: {name: q-%[1]d}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`,
		"apart":  `{queue: {name: q-%[1]d}, deadLetter: {exchange: {name: dlx-%[1]d}, queue: {name: dlq-%[1]d}}}`,
	} {
		b.Run(name, func(b *testing.B) {
			const count = 3000
			objects := make([]client.Object, count)
			for i := range objects {
				objects[i] = controllertest.Named(b, "shop", fmt.Sprint("q-", i), fmt.Sprintf(spec, i))
			}
			w := newWorld(b, objects...)
			start(w, objects)
			for b.Loop() {
				w.restart()
				start(w, objects)
			}
		})
	}
}

// start reconciles each object once, after the index has all of them.
func start(w *world, objects []client.Object) {
	w.t.Helper()
	for _, object := range objects {
		cq := &v1alpha1.ConsumerQueue{}
		if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(object), cq); err != nil {
			w.t.Fatal(err)
		}
		w.reconciler.index.Update(cq)
	}
	for _, object := range objects {
		if _, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}); err != nil {
			w.t.Fatal(err)
		}
	}
}
