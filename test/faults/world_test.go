package faults

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// interval is the resyncInterval of every BrokerConnection here.
const interval = "1s"

// world is a namespace and a vhost, with a Secret "rabbitmq" and a BrokerConnection "default" that lead to the broker
// through proxies. Tests themselves, with their publishers and consumers, take the straight way.
type world struct {
	broker           brokers.Broker
	vhost            *brokers.VHost
	namespace        string
	amqp, management *proxy
}

func newWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	return newWorldAt(broker.NewVHost(GinkgoTB()))
}

// newStraightWorld has no proxies: a broker that is stopped refuses connections itself.
func newStraightWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	w := newBareWorld(broker)
	w.amqp, w.management = nil, nil
	w.secret(broker.Username, broker.Password)
	w.connect(w.vhost.Name)
	return w
}

// newWorldAt is a world whose vhost exists.
func newWorldAt(vhost *brokers.VHost) *world {
	GinkgoHelper()
	w := newBareWorldAt(vhost)
	w.secret(vhost.Broker.Username, vhost.Broker.Password)
	w.connect(vhost.Name)
	return w
}

// newBareWorld has neither Secret nor BrokerConnection yet.
func newBareWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	return newBareWorldAt(broker.NewVHost(GinkgoTB()))
}

func newBareWorldAt(vhost *brokers.VHost) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
	Expect(kube.Create(ctx(), namespace)).To(Succeed())
	w := &world{
		broker: vhost.Broker, vhost: vhost, namespace: namespace.Name,
		amqp: newProxy(vhost.Broker.AMQPURI), management: newProxy(vhost.Broker.ManagementURI),
	}
	// By then the manager is stopped, for it was started later: nothing is declared while the vhost is being deleted,
	// which can break a broker, and nobody sees to finalizers any more.
	DeferCleanup(w.clear)
	return w
}

func (w *world) clear() {
	GinkgoHelper()
	background := context.Background()
	list := &v1alpha1.ConsumerQueueList{}
	Expect(kube.List(background, list, client.InNamespace(w.namespace))).To(Succeed())
	for i := range list.Items {
		cq := &list.Items[i]
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(kube.Patch(background, cq, patch))).To(Succeed())
	}
	for _, kind := range []client.Object{&v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{}} {
		Expect(kube.DeleteAllOf(background, kind, client.InNamespace(w.namespace))).To(Succeed())
	}
}

func ctx() context.Context { return GinkgoT().Context() }

// secret makes or changes the Secret.
func (w *world) secret(username, password string) {
	GinkgoHelper()
	amqpURI, managementURI := w.broker.AMQPURI, w.broker.ManagementURI
	if w.amqp != nil {
		amqpURI, managementURI = w.amqp.uri(), w.management.uri()
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "rabbitmq", Namespace: w.namespace}, StringData: map[string]string{
		"username": username, "password": password, "amqpURI": amqpURI, "managementURI": managementURI,
	}}
	err := kube.Create(ctx(), secret.DeepCopy())
	if err != nil {
		Expect(kube.Update(ctx(), secret)).To(Succeed())
	}
}

// connect makes the BrokerConnection.
func (w *world) connect(vhost string) {
	GinkgoHelper()
	w.connectEvery(interval, vhost)
}

// connectEvery makes the BrokerConnection with another resyncInterval.
func (w *world) connectEvery(interval v1alpha1.Duration, vhost string) {
	GinkgoHelper()
	Expect(kube.Create(ctx(), &v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: w.namespace},
		Spec: v1alpha1.BrokerConnectionSpec{
			SecretRef: &v1alpha1.SecretReference{Name: "rabbitmq"}, VHost: vhost, ResyncInterval: interval,
		},
	})).To(Succeed())
}

// queue makes a ConsumerQueue, its spec given as YAML.
func (w *world) queue(name, spec string) {
	GinkgoHelper()
	cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
	Expect(yaml.UnmarshalStrict([]byte(spec), &cq.Spec)).To(Succeed())
	Expect(kube.Create(ctx(), cq)).To(Succeed())
}

// queues makes many ConsumerQueues, and returns their names.
func (w *world) queues(prefix string, count int, spec string) []string {
	GinkgoHelper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", prefix, i)
		w.queue(names[i], spec)
	}
	return names
}

func (w *world) get(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	cq := &v1alpha1.ConsumerQueue{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.namespace, Name: name}, cq)).To(Succeed())
	return cq
}

func (w *world) connection() *v1alpha1.BrokerConnection {
	GinkgoHelper()
	bc := &v1alpha1.BrokerConnection{}
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.namespace, Name: "default"}, bc)).To(Succeed())
	return bc
}

func (w *world) all() []v1alpha1.ConsumerQueue {
	GinkgoHelper()
	list := &v1alpha1.ConsumerQueueList{}
	Expect(kube.List(ctx(), list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// eventually waits until the status of a ConsumerQueue speaks of its newest generation and is as wanted.
func (w *world) eventually(name string, matchers ...matcher) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	current := WithTransform(func(cq *v1alpha1.ConsumerQueue) int64 { return cq.Generation - cq.Status.ObservedGeneration }, BeZero())
	Eventually(func() *v1alpha1.ConsumerQueue { return w.get(name) }).Should(SatisfyAll(append(matchers, current)...))
	return w.get(name)
}

func (w *world) ready(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		w.eventually(name, condition("Ready", metav1.ConditionTrue, "InSync"), condition("Drifted", metav1.ConditionFalse, "InSync"))
	}
}

// allReady waits until every ConsumerQueue of the namespace is Ready, with few requests.
func (w *world) allReady() {
	GinkgoHelper()
	Eventually(func() []string {
		var waiting []string
		for _, cq := range w.all() {
			if !meta.IsStatusConditionTrue(cq.Status.Conditions, "Ready") || cq.Status.ObservedGeneration != cq.Generation {
				waiting = append(waiting, cq.Name)
			}
		}
		return waiting
	}).WithTimeout(deadline.For(time.Minute)).WithPolling(300 * time.Millisecond).Should(BeEmpty())
}

// condition matches a resource by one of its conditions.
func condition(name string, value metav1.ConditionStatus, reason string) matcher {
	return WithTransform(func(object client.Object) string {
		found := meta.FindStatusCondition(conditionsOf(object), name)
		if found == nil {
			return "absent"
		}
		return fmt.Sprintf("%s %s %s: %s", found.Type, found.Status, found.Reason, found.Message)
	}, HavePrefix("%s %s %s:", name, value, reason))
}

// message matches a resource by the message of its Ready condition.
func message(of matcher) types.GomegaMatcher {
	return WithTransform(func(object client.Object) string {
		if found := meta.FindStatusCondition(conditionsOf(object), "Ready"); found != nil {
			return found.Message
		}
		return ""
	}, of)
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

type matcher = types.GomegaMatcher
