// Package controllertest makes resources and API servers in memory for the tests of controllers.
package controllertest

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// Password is a password that must not be seen anywhere.
const Password = "correct-horse"

// ConsumerQueue is a ConsumerQueue named orders with a spec as a user writes it.
func ConsumerQueue(t *testing.T, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Namespace, cq.Name, cq.Generation = "shop", "orders", 3
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		t.Fatalf("spec: %v", err)
	}
	return cq
}

// Named is a ConsumerQueue of some name.
func Named(t *testing.T, namespace, name, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := ConsumerQueue(t, spec)
	cq.Namespace, cq.Name = namespace, name
	return cq
}

// BrokerConnection is a BrokerConnection named default.
func BrokerConnection(spec v1alpha1.BrokerConnectionSpec) *v1alpha1.BrokerConnection {
	bc := &v1alpha1.BrokerConnection{Spec: spec}
	bc.Namespace, bc.Name, bc.Generation = "shop", "default", 3
	if bc.Spec.VHost == "" {
		bc.Spec.VHost = "/"
	}
	if bc.Spec.ResyncInterval == "" {
		bc.Spec.ResyncInterval = "30s"
	}
	return bc
}

// AddIndexes adds indexes to a manager.
type AddIndexes func(ctx context.Context, indexer client.FieldIndexer) error

// Client is a client that knows some objects, with the indexes of a manager.
func Client(t *testing.T, indexes []AddIndexes, objects ...client.Object) client.WithWatch {
	t.Helper()
	return ClientBuilder(t, indexes, objects...).Build()
}

// ClientBuilder is Client before it is built.
func ClientBuilder(t *testing.T, indexes []AddIndexes, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	copies := make([]client.Object, len(objects)) // it writes into what it is given, which tests share
	for i, object := range objects {
		copies[i] = object.DeepCopyObject().(client.Object)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(copies...).
		WithStatusSubresource(&v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{})
	for _, add := range indexes {
		if err := add(t.Context(), builderIndexer{builder}); err != nil {
			t.Fatal(err)
		}
	}
	return builder
}

// builderIndexer gives a fake client indexes.
type builderIndexer struct{ builder *fake.ClientBuilder }

func (b builderIndexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	b.builder.WithIndex(object, field, values)
	return nil
}

// BrokenClient is a client whose API server answers nothing.
func BrokenClient(t *testing.T) client.WithWatch {
	t.Helper()
	broken := errors.New("the API server is tired")
	return ClientBuilder(t, nil).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, types.NamespacedName, client.Object, ...client.GetOption) error {
			return broken
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	}).Build()
}

// StatusApply has every apply of a status answered by a function.
func StatusApply(answer func() error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return answer()
		},
	}
}

// Conflict is the answer of an API server to a write that is based on an old version.
func Conflict(name string) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("consumerqueues").GroupResource(), name, errors.New("it was changed"))
}

// NotFound is the answer of an API server where there is no such ConsumerQueue.
func NotFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "consumerqueues"}, name)
}

// EventLog records Events.
type EventLog struct {
	events.EventRecorder

	Reasons, Notes []string
}

// Eventf takes note of an Event.
func (e *EventLog) Eventf(_, _ runtime.Object, _, reason, _, _ string, args ...any) {
	e.Reasons = append(e.Reasons, reason)
	e.Notes = append(e.Notes, args[0].(string))
}
