package controller

import (
	"context"
	"errors"
	"fmt"
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
)

var (
	v313 = topology.Version{Major: 3, Minor: 13}
	v40  = topology.Version{Major: 4, Minor: 0}
	v43  = topology.Version{Major: 4, Minor: 3}
)

// story is what happened to a ConsumerQueue named orders: it was in sync, then its spec or the broker's version changed,
// then somebody was at the broker.
type story struct {
	// was is the spec that the broker was in sync with; empty if it never was.
	was  string
	from topology.Version
	// spec is what is desired now; was if empty.
	spec string
	on   topology.Version
	// then changes what the broker has.
	then func(o topology.Observed)
}

// told is a story in the values that the code sees.
type told struct {
	desired    topology.Topology
	shapes     []string
	known      history
	comparison topology.Comparison
}

func tellStory(t *testing.T, s story) told {
	t.Helper()
	if s.on == (topology.Version{}) {
		s.on = v43
	}
	if s.from == (topology.Version{}) {
		s.from = s.on
	}
	if s.spec == "" {
		s.spec = s.was
	}
	observed, known := observe(topology.Topology{}), history{}
	if s.was != "" {
		before := desired(t, s.was, s.from)
		observed = observe(before)
		entries := topology.Diff(before, observed, topology.Context{}).Entries
		known = historyOf(remember(entries, before.Shapes(), nil, plan{}))
	}
	if s.then != nil {
		s.then(observed)
	}
	now := desired(t, s.spec, s.on)
	return told{
		desired: now, shapes: now.Shapes(), known: known,
		comparison: topology.Diff(now, observed, topology.Context{Older: topology.Older(consumerQueue(t, s.spec), s.on)}),
	}
}

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

func desired(t *testing.T, spec string, version topology.Version) topology.Topology {
	t.Helper()
	got, err := topology.Desired(consumerQueue(t, spec), version)
	if err != nil {
		t.Fatalf("Desired on %s: %v", version, err)
	}
	return got
}

// observe is what a broker has after a topology was declared on it. An exchange that must exist is of type topic.
func observe(topo topology.Topology) topology.Observed {
	observed := topology.Observed{
		Exchanges:    map[string]topology.ObservedExchange{},
		Queues:       map[string]topology.ObservedQueue{},
		BindingsTo:   map[string][]topology.ObservedBinding{},
		BindingsFrom: map[string][]topology.ObservedBinding{},
	}
	for _, exchange := range topo.Exchanges {
		kind := string(exchange.Type)
		if kind == "" {
			kind = "topic"
		}
		observed.Exchanges[exchange.Name] = topology.ObservedExchange{Type: kind, Durable: true}
	}
	for _, queue := range topo.Queues {
		observed.Queues[queue.Name] = topology.ObservedQueue{Durable: true, Arguments: queue.Arguments}
	}
	for _, binding := range topo.Bindings {
		bind(observed, topology.ObservedBinding{
			Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments,
		})
	}
	return observed
}

func bind(o topology.Observed, binding topology.ObservedBinding) {
	o.BindingsTo[binding.Destination] = append(o.BindingsTo[binding.Destination], binding)
	o.BindingsFrom[binding.Source] = append(o.BindingsFrom[binding.Source], binding)
}

// deleteQueue deletes a queue as a broker does, with the bindings into it.
func deleteQueue(o topology.Observed, name string) {
	delete(o.Queues, name)
	unbindAll(o, func(b topology.ObservedBinding) bool { return b.Destination == name })
}

// deleteExchange deletes an exchange as a broker does, with the bindings from it.
func deleteExchange(o topology.Observed, name string) {
	delete(o.Exchanges, name)
	unbindAll(o, func(b topology.ObservedBinding) bool { return b.Source == name })
}

func unbind(o topology.Observed, source, destination string) {
	unbindAll(o, func(b topology.ObservedBinding) bool { return b.Source == source && b.Destination == destination })
}

func unbindAll(o topology.Observed, gone func(topology.ObservedBinding) bool) {
	for _, bindings := range []map[string][]topology.ObservedBinding{o.BindingsTo, o.BindingsFrom} {
		for end, list := range bindings {
			var kept []topology.ObservedBinding
			for _, binding := range list {
				if !gone(binding) {
					kept = append(kept, binding)
				}
			}
			bindings[end] = kept
		}
	}
}

// setArgument gives a queue another argument than the one that it was declared with.
func setArgument(o topology.Observed, name, argument string, value any) {
	changed := topology.Arguments{argument: value}
	for key, old := range o.Queues[name].Arguments {
		if key != argument {
			changed[key] = old
		}
	}
	o.Queues[name] = topology.ObservedQueue{Durable: true, Arguments: changed}
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

// planned renders a plan with one line for each object.
func planned(p plan) []string {
	lines := make([]string, 0, p.count())
	for _, exchange := range p.declare.Exchanges {
		lines = append(lines, fmt.Sprintf("exchange %s (%s)", exchange.Name, exchange.Type))
	}
	for _, queue := range p.declare.Queues {
		lines = append(lines, "queue "+queue.Name)
	}
	for _, binding := range p.declare.Bindings {
		lines = append(lines, fmt.Sprintf("binding %s -> %s %q", binding.Source, binding.Destination, binding.RoutingKey))
	}
	for _, binding := range p.sources {
		lines = append(lines, fmt.Sprintf("at last binding %s -> %s %q", binding.Source, binding.Destination, binding.RoutingKey))
	}
	return lines
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
