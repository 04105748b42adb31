package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

var (
	v313 = vhost.Version{Major: 3, Minor: 13}
	v40  = vhost.Version{Major: 4, Minor: 0}
	v43  = vhost.Version{Major: 4, Minor: 3}
)

// consumerQueue is a ConsumerQueue named orders with a spec as a user writes it.
func consumerQueue(t *testing.T, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Namespace, cq.Name, cq.Generation = "shop", "orders", 3
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		t.Fatalf("spec: %v", err)
	}
	return cq
}

func desired(t *testing.T, spec string, version vhost.Version) topology.Topology {
	t.Helper()
	got, err := topology.Desired(consumerQueue(t, spec), version)
	if err != nil {
		t.Fatalf("Desired on %s: %v", version, err)
	}
	return got
}

// testClient is a client that knows some objects, with the indexes of a manager.
func testClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return testClientBuilder(t, objects...).Build()
}

func testClientBuilder(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
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
	if err := addIndexes(t.Context(), builderIndexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder
}

// builderIndexer gives a fake client the indexes that addIndexes asks for.
type builderIndexer struct{ builder *fake.ClientBuilder }

func (b builderIndexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	b.builder.WithIndex(object, field, values)
	return nil
}

func equal[T any](t *testing.T, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if difference := cmp.Diff(want, got, options...); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// comparing looks into the unexported fields of a type.
func comparing[T any]() cmp.Option {
	var zero T
	return cmp.AllowUnexported(zero)
}

var comparingOccurrences = comparing[occurrence]()

// comparingErrors takes errors for equal that are one.
var comparingErrors = cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) && errors.Is(b, a) })

// statusApply has every apply of a status answered by a function.
func statusApply(answer func() error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return answer()
		},
	}
}

func conflict(name string) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("consumerqueues").GroupResource(), name, errors.New("it was changed"))
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "consumerqueues"}, name)
}
