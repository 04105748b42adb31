// Package controllertest makes resources and in-memory API servers for the tests of controllers.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// Password is a password that must never appear in a message.
const Password = "correct-horse"

// ConsumerQueue returns a ConsumerQueue named orders with a spec as a user writes it.
func ConsumerQueue(t testing.TB, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Namespace, cq.Name, cq.Generation = "shop", "orders", 3
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		t.Fatalf("spec: %v", err)
	}
	return cq
}

// NewConsumerQueue returns a ConsumerQueue with the status that the API server creates.
func NewConsumerQueue(t testing.TB, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := ConsumerQueue(t, spec)
	cq.UID, cq.Status.ObservedGeneration = "uid-of-orders", -1
	return cq
}

// Named returns a ConsumerQueue with a name.
func Named(t testing.TB, namespace, name, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := ConsumerQueue(t, spec)
	cq.Namespace, cq.Name = namespace, name
	return cq
}

// BrokerConnection returns a BrokerConnection named default.
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

// AddIndexes registers indexes of a controller.
type AddIndexes func(ctx context.Context, indexer client.FieldIndexer) error

// Client returns a fake client with the given objects and indexes.
func Client(t testing.TB, indexes []AddIndexes, objects ...client.Object) client.WithWatch {
	t.Helper()
	return ClientBuilder(t, indexes, objects...).Build()
}

// ClientBuilder returns the builder of Client, for tests that intercept calls.
func ClientBuilder(t testing.TB, indexes []AddIndexes, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	copies := make([]client.Object, len(objects)) // the client writes into the objects, which tests share
	for i, object := range objects {
		copies[i] = object.DeepCopyObject().(client.Object)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(copies...).
		WithStatusSubresource(&v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{}, &v1alpha1.Redrive{}, &v1alpha1.Purge{})
	for _, add := range indexes {
		if err := add(t.Context(), builderIndexer{builder}); err != nil {
			t.Fatal(err)
		}
	}
	return builder
}

type builderIndexer struct{ builder *fake.ClientBuilder }

func (b builderIndexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	b.builder.WithIndex(object, field, values)
	return nil
}

// BrokenClient returns a client whose reads all fail.
func BrokenClient(t testing.TB) client.WithWatch {
	t.Helper()
	broken := errors.New("the API server is down")
	return ClientBuilder(t, nil).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, types.NamespacedName, client.Object, ...client.GetOption) error {
			return broken
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	}).Build()
}

// StatusUpdate intercepts every status update with a function.
func StatusUpdate(answer func() error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return answer()
		},
	}
}

// Conflict returns the answer of an API server to a write that is based on an old version.
func Conflict(name string) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("consumerqueues").GroupResource(), name, errors.New("it was changed"))
}

// NotFound returns the answer of an API server that has no such ConsumerQueue.
func NotFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "consumerqueues"}, name)
}

// EventLog is an EventRecorder that records the reasons and notes of Events.
type EventLog struct {
	events.EventRecorder

	Reasons, Notes []string
}

// Eventf records the reason and the note of an Event.
func (e *EventLog) Eventf(_, _ runtime.Object, _, reason, _, _ string, args ...any) {
	e.Reasons = append(e.Reasons, reason)
	e.Notes = append(e.Notes, args[0].(string))
}

// Lines renders conditions as type=status reason message, generation.
func Lines(conditions []metav1.Condition) []string {
	text := make([]string, len(conditions))
	for i, c := range conditions {
		text[i] = fmt.Sprintf("%s=%s %s %q, %d", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration)
	}
	return text
}

// AnyOrder compares lists of strings as sets.
var AnyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// ConnectedTo returns a BrokerConnection that leads to a vhost of a cluster.
func ConnectedTo(namespace, name, cluster, vhostName string) *v1alpha1.BrokerConnection {
	return &v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.BrokerConnectionSpec{VHost: vhostName},
		Status:     v1alpha1.BrokerConnectionStatus{Location: v1alpha1.Location{ClusterName: cluster, ClusterEndpoint: "mq:5672"}},
	}
}

// Synced returns a ConsumerQueue whose status matches the spec was. If spec is not empty, it replaces was as the current spec, and the
// status still matches was.
func Synced(t testing.TB, name, was, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := Named(t, "shop", name, was)
	topo, err := topology.Desired(cq, topologytest.V43)
	if err != nil {
		t.Fatal(err)
	}
	status := v1alpha1.ConsumerQueueStatus{
		Location: v1alpha1.Location{ClusterName: "rabbit@a", ClusterEndpoint: "mq:5672", VHost: "/"}, Topology: topologytest.Owned(topo),
	}
	if spec != "" {
		cq = Named(t, "shop", name, spec)
	}
	cq.Status = status
	return cq
}

// BeingDeleted sets the deletion timestamp and the finalizer of a ConsumerQueue.
func BeingDeleted(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	now := metav1.Now()
	cq.DeletionTimestamp, cq.Finalizers = &now, []string{v1alpha1.TopologyFinalizer}
	return cq
}

// Deleter is a slow broker: each deletion runs until it gets a result or its context ends.
type Deleter struct {
	Begun   chan []string
	Results chan error
}

// NewDeleter returns a Deleter.
func NewDeleter() *Deleter {
	return &Deleter{Begun: make(chan []string, 10), Results: make(chan error)}
}

// DeleteEmpty waits for a result.
func (d *Deleter) DeleteEmpty(ctx context.Context, _ string, queues []string, _ func(context.Context) error) error {
	d.Begun <- queues
	select {
	case result := <-d.Results:
		return result
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Enqueued receives the ConsumerQueues that a task enqueues at its end.
type Enqueued chan client.ObjectKey

// NewEnqueued returns an Enqueued.
func NewEnqueued() Enqueued { return make(Enqueued, 10) }

// Enqueue records a ConsumerQueue.
func (e Enqueued) Enqueue(key client.ObjectKey) { e <- key }

// Orders and Invoices are names of ConsumerQueues.
var (
	Orders   = client.ObjectKey{Namespace: "shop", Name: "orders"}
	Invoices = client.ObjectKey{Namespace: "shop", Name: "invoices"}
)

// InSync returns a ConsumerQueue named orders that is in sync with its spec at the broker of brokerstest.New.
func InSync(t testing.TB, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := Synced(t, "orders", spec, "")
	cq.Status.ObservedGeneration = cq.Generation
	cq.Status.Location.ClusterName, cq.Status.Location.ClusterEndpoint = "rabbit@memory", "memory:5672"
	return cq
}

// HelpOf returns the help text of a metric.
func HelpOf(t testing.TB, name string) string {
	t.Helper()
	for _, metric := range metrics.Definitions() {
		if metric.Name == name {
			return metric.Help
		}
	}
	t.Fatalf("there is no metric %s", name)
	return ""
}
