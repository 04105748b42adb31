package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
)

// world is a test's own namespace and vhost, with a Secret "rabbitmq" and, unless a test makes its own, a
// BrokerConnection "default".
type world struct {
	broker    brokers.Broker
	vhost     *brokers.VHost
	namespace string
}

// newWorld makes a world whose broker is looked at every second.
func newWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	w := newBareWorld(broker)
	w.secret(broker.Username, broker.Password)
	w.connection(v1alpha1.BrokerConnectionSpec{})
	return w
}

// newBareWorld makes a namespace and a vhost and nothing in them.
func newBareWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	Expect(kube.Create(ctx(), namespace)).To(Succeed())
	showLog(namespace.Name)
	w := &world{broker: broker, vhost: broker.NewVHost(GinkgoTB()), namespace: namespace.Name}
	DeferCleanup(func() {
		w.disconnect()
		for _, kind := range []client.Object{&v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{}} {
			Expect(kube.DeleteAllOf(context.Background(), kind, client.InNamespace(w.namespace))).To(Succeed())
		}
	})
	return w
}

// disconnect has the operator close its connection, and returns when it has: what is declared again while the vhost is
// being deleted can end the broker's supervisor of dead-letter workers (rabbit_fifo_dlx_sup), and with it every further
// declaration of a queue that dead-letters at least once.
func (w *world) disconnect() {
	GinkgoHelper()
	background := context.Background()
	list := &v1alpha1.BrokerConnectionList{}
	Expect(kube.List(background, list, client.InNamespace(w.namespace))).To(Succeed())
	for i := range list.Items {
		bc := &list.Items[i]
		patch := client.MergeFrom(bc.DeepCopy())
		suspend := true
		bc.Spec.Suspend = &suspend
		Expect(client.IgnoreNotFound(kube.Patch(background, bc, patch))).To(Succeed())
		Eventually(func() bool {
			now := &v1alpha1.BrokerConnection{}
			err := kube.Get(background, client.ObjectKeyFromObject(bc), now)
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			return err != nil || meta.IsStatusConditionTrue(now.Status.Conditions, "Suspended")
		}).Should(BeTrue())
	}
}

func ctx() context.Context { return GinkgoT().Context() }

func (w *world) secret(username, password string) {
	GinkgoHelper()
	w.secretOf("rabbitmq", username, password)
}

func (w *world) secretOf(name, username, password string) {
	GinkgoHelper()
	w.apply(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string][]byte{
			"username": []byte(username), "password": []byte(password),
			"amqpURI": []byte(w.broker.AMQPURI), "managementURI": []byte(w.broker.ManagementURI),
		},
	})
}

// connection makes the BrokerConnection "default" from a spec, to which it adds what is the same in all tests.
func (w *world) connection(spec v1alpha1.BrokerConnectionSpec) {
	GinkgoHelper()
	spec.VHost = w.vhost.Name
	if spec.SecretRef == nil && spec.ClusterRef == nil {
		spec.SecretRef = &v1alpha1.SecretReference{Name: "rabbitmq"}
	}
	if spec.ResyncInterval == "" {
		spec.ResyncInterval = "1s"
	}
	w.apply(&v1alpha1.BrokerConnection{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BrokerConnection"},
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec:       spec,
	})
}

// queue applies a ConsumerQueue by server-side apply, its spec given as YAML, as somebody else than Warren.
func (w *world) queue(name, spec string) {
	GinkgoHelper()
	given := v1alpha1.ConsumerQueueSpec{}
	Expect(yaml.UnmarshalStrict([]byte(spec), &given)).To(Succeed())
	w.queueOf(v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: given})
}

func (w *world) queueOf(cq v1alpha1.ConsumerQueue) {
	GinkgoHelper()
	cq.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ConsumerQueue"}
	w.apply(&cq)
}

// apply owns what is in the object and nothing else, as Argo CD and Flux do.
func (w *world) apply(object client.Object) {
	GinkgoHelper()
	object.SetNamespace(w.namespace)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	delete(content, "status")
	applied := &unstructured.Unstructured{Object: content}
	Expect(kube.Apply(ctx(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("gitops"), client.ForceOwnership)).To(Succeed())
}

func (w *world) get(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	cq := &v1alpha1.ConsumerQueue{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.namespace, Name: name}, cq)).To(Succeed())
	return cq
}

func (w *world) getConnection() *v1alpha1.BrokerConnection {
	GinkgoHelper()
	bc := &v1alpha1.BrokerConnection{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.namespace, Name: "default"}, bc)).To(Succeed())
	return bc
}

// eventually waits until a ConsumerQueue's status speaks of its newest generation and is as wanted, and checks that
// kstatus understands it.
func (w *world) eventually(name string, matchers ...types.GomegaMatcher) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	Eventually(func() *v1alpha1.ConsumerQueue { return w.get(name) }).Should(SatisfyAll(append(matchers, beCurrent())...))
	cq := w.get(name)
	expectTidy(cq.Status.Conditions)
	return cq
}

func (w *world) ready(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	return w.eventually(name, condition("Ready", metav1.ConditionTrue, "InSync"),
		condition("Drifted", metav1.ConditionFalse, "InSync"), condition("RecreationRequired", metav1.ConditionFalse, "InSync"))
}

// readyWithin is for what waits until a queue is known to be empty.
func (w *world) readyWithin(name string, limit time.Duration) {
	GinkgoHelper()
	Eventually(func() *v1alpha1.ConsumerQueue { return w.get(name) }).WithTimeout(deadline.For(limit)).
		Should(SatisfyAll(condition("Ready", metav1.ConditionTrue, "InSync"), beCurrent()))
}

func (w *world) eventuallyConnection(matchers ...types.GomegaMatcher) *v1alpha1.BrokerConnection {
	GinkgoHelper()
	Eventually(w.getConnection).Should(SatisfyAll(matchers...))
	return w.getConnection()
}

// events lists the reasons of the Events about a ConsumerQueue, one for each time it was recorded.
func (w *world) events(name string) []string {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(kube.List(ctx(), list, client.InNamespace(w.namespace))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var reasons []string
	for _, event := range list.Items {
		if event.Regarding.Name != name {
			continue
		}
		times := int32(1)
		if event.Series != nil {
			times = event.Series.Count
		}
		for range times {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// holds is what the vhost has, in the form of the conformance vectors.
func (w *world) holds() conformance.State {
	GinkgoHelper()
	found := w.vhost.Definitions()
	state := conformance.State{}
	for _, e := range found.Exchanges {
		Expect(e.AutoDelete || e.Internal || len(e.Arguments) > 0).To(BeFalse(), "exchange %+v", e)
		state.Exchanges = append(state.Exchanges, conformance.Exchange{Name: e.Name, Type: e.Type, Durable: e.Durable})
	}
	for _, q := range found.Queues {
		Expect(q.Durable && !q.AutoDelete).To(BeTrue(), "queue %+v", q)
		state.Queues = append(state.Queues, conformance.Queue{Name: q.Name, Arguments: vhost.Normalize(q.Arguments)})
	}
	for _, b := range found.Bindings {
		Expect(b.DestinationType).To(Equal("queue"))
		state.Bindings = append(state.Bindings, conformance.Binding{
			Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: vhost.Normalize(b.Arguments),
		})
	}
	return state
}

// equalState compares vhosts without regard to order.
func equalState(want conformance.State) types.GomegaMatcher {
	return SatisfyAll(
		HaveField("Exchanges", ConsistOf(asAny(want.Exchanges)...)),
		HaveField("Queues", ConsistOf(asAny(want.Queues)...)),
		HaveField("Bindings", ConsistOf(asAny(want.Bindings)...)),
	)
}

func asAny[T any](list []T) []any {
	result := make([]any, len(list))
	for i := range list {
		result[i] = list[i]
	}
	return result
}

// condition matches a resource by one of its conditions.
func condition(name string, value metav1.ConditionStatus, reason string) types.GomegaMatcher {
	return WithTransform(func(object client.Object) string {
		found := meta.FindStatusCondition(conditionsOf(object), name)
		if found == nil {
			return "absent"
		}
		return fmt.Sprintf("%s %s %s (generation %d)", found.Type, found.Status, found.Reason, found.ObservedGeneration)
	}, HavePrefix("%s %s %s (", name, value, reason))
}

func noCondition(name string) types.GomegaMatcher {
	return WithTransform(func(object client.Object) *metav1.Condition {
		return meta.FindStatusCondition(conditionsOf(object), name)
	}, BeNil())
}

// message matches a resource by the message of its Ready condition.
func message(matcher types.GomegaMatcher) types.GomegaMatcher {
	return WithTransform(func(object client.Object) string {
		if found := meta.FindStatusCondition(conditionsOf(object), "Ready"); found != nil {
			return found.Message
		}
		return ""
	}, matcher)
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.ConsumerQueue:
		return object.Status.Conditions
	case *v1alpha1.BrokerConnection:
		return object.Status.Conditions
	}
	return nil
}

func beCurrent() types.GomegaMatcher {
	return WithTransform(func(cq *v1alpha1.ConsumerQueue) int64 { return cq.Generation - cq.Status.ObservedGeneration }, BeZero())
}

// expectTidy checks the rules of kstatus that hold for every status.
func expectTidy(conditions []metav1.Condition) {
	GinkgoHelper()
	ready := meta.FindStatusCondition(conditions, "Ready")
	Expect(ready).NotTo(BeNil())
	reconciling, stalled := meta.FindStatusCondition(conditions, "Reconciling"), meta.FindStatusCondition(conditions, "Stalled")
	Expect(reconciling != nil && stalled != nil).To(BeFalse(), "Reconciling and Stalled together: %+v", conditions)
	for _, progress := range []*metav1.Condition{reconciling, stalled} {
		if progress != nil {
			Expect(progress.Status).To(Equal(metav1.ConditionTrue))
			Expect([]string{progress.Reason, progress.Message}).To(Equal([]string{ready.Reason, ready.Message}))
		}
	}
}

// kstatusOf computes what Flux, Argo CD and kubectl plugins make of a resource. Conditions follow kstatus: Reconciling is in
// progress, Stalled is failed, Ready with the current observedGeneration is done. So a Kustomization of Flux with wait: true
// becomes Ready when its ConsumerQueues are, and fails when one is Stalled.
func kstatusOf(object client.Object) status.Status {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	Expect(err).NotTo(HaveOccurred())
	return result.Status
}
