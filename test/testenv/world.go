package testenv

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// World is a namespace and a vhost for one test. Secret and Connect create the Secret "rabbitmq" and the BrokerConnection
// "default" in the namespace, with which Warren connects to the vhost.
type World struct {
	Kube      *APIServer
	Namespace string
	// VHost accesses the vhost without Warren.
	VHost *brokers.VHost
	// Broker has the addresses in the Secret: VHost.Broker, or proxies or another node of the same broker.
	Broker brokers.Broker
}

// NewWorld creates an empty namespace for a vhost.
func NewWorld(kube *APIServer, vhost *brokers.VHost) *World {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(kube.Create(ctx(), namespace)).To(Succeed())
	return &World{Kube: kube, Namespace: namespace.Name, VHost: vhost, Broker: vhost.Broker}
}

// Clear deletes the resources after their manager has ended, with their finalizers.
func (w *World) Clear() {
	GinkgoHelper()
	background := context.Background()
	queues, connections := &v1alpha1.ConsumerQueueList{}, &v1alpha1.BrokerConnectionList{}
	Expect(w.Kube.List(background, queues, client.InNamespace(w.Namespace))).To(Succeed())
	Expect(w.Kube.List(background, connections, client.InNamespace(w.Namespace))).To(Succeed())
	end := func(object client.Object) { Expect(deleteWithFinalizers(background, w.Kube, object)).To(Succeed()) }
	for i := range queues.Items {
		end(&queues.Items[i])
	}
	for i := range connections.Items {
		end(&connections.Items[i])
	}
}

// Leave deletes the resources while a manager runs, which removes their finalizers.
func (w *World) Leave() {
	GinkgoHelper()
	w.Disconnect()
	for _, kind := range []client.Object{&v1alpha1.Redrive{}, &v1alpha1.Purge{}, &v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{}} {
		Expect(w.Kube.DeleteAllOf(context.Background(), kind, client.InNamespace(w.Namespace))).To(Succeed())
	}
}

// Disconnect makes the manager close its connections and waits until it has. A queue that is declared while its vhost is
// being deleted can end the broker's supervisor of dead-letter workers (rabbit_fifo_dlx_sup). Then every declaration of a queue
// that dead-letters at least once fails.
func (w *World) Disconnect() {
	GinkgoHelper()
	background := context.Background()
	list := &v1alpha1.BrokerConnectionList{}
	Expect(w.Kube.List(background, list, client.InNamespace(w.Namespace))).To(Succeed())
	for i := range list.Items {
		w.suspend(background, &list.Items[i])
	}
}

func (w *World) suspend(ctx context.Context, bc *v1alpha1.BrokerConnection) {
	GinkgoHelper()
	patch := client.MergeFrom(bc.DeepCopy())
	bc.Spec.Suspend = true
	Expect(client.IgnoreNotFound(w.Kube.Patch(ctx, bc, patch))).To(Succeed())
	Eventually(func() bool {
		now := &v1alpha1.BrokerConnection{}
		err := w.Kube.Get(ctx, client.ObjectKeyFromObject(bc), now)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err != nil || meta.IsStatusConditionTrue(now.Status.Conditions, "Suspended")
	}).Should(BeTrue())
}

// Apply applies an object in the namespace.
func (w *World) Apply(object client.Object) {
	GinkgoHelper()
	object.SetNamespace(w.Namespace)
	w.Kube.ApplyObject(object)
}

// Secret applies the Secret "rabbitmq".
func (w *World) Secret(username, password string) {
	GinkgoHelper()
	w.SecretNamed("rabbitmq", username, password)
}

// SecretNamed applies another Secret with the same keys.
func (w *World) SecretNamed(name, username, password string) {
	GinkgoHelper()
	w.Apply(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{
		"username": []byte(username), "password": []byte(password),
		"amqpURI": []byte(w.Broker.AMQPURI), "managementURI": []byte(w.Broker.ManagementURI),
	}})
}

// Connect applies the BrokerConnection "default". It adds the vhost, the Secret and a resyncInterval of one second to the
// spec.
func (w *World) Connect(spec v1alpha1.BrokerConnectionSpec) {
	GinkgoHelper()
	spec.VHost = w.VHost.Name
	if spec.SecretRef == nil && spec.ClusterRef == nil {
		spec.SecretRef = &v1alpha1.LocalObjectReference{Name: "rabbitmq"}
	}
	if spec.ResyncInterval == "" {
		spec.ResyncInterval = "1s"
	}
	w.Apply(&v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: spec})
}

// Queue applies a ConsumerQueue with a spec in YAML.
func (w *World) Queue(name, spec string) {
	GinkgoHelper()
	cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(yaml.UnmarshalStrict([]byte(spec), &cq.Spec)).To(Succeed())
	w.Apply(cq)
}

// Redrive creates a Redrive with a spec in YAML.
func (w *World) Redrive(name, spec string) {
	GinkgoHelper()
	redrive := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	Expect(yaml.UnmarshalStrict([]byte(spec), &redrive.Spec)).To(Succeed())
	Expect(w.Kube.Create(ctx(), redrive)).To(Succeed())
}

// EditRedrive changes the spec of a Redrive.
func (w *World) EditRedrive(name string, change func(*v1alpha1.RedriveSpec)) {
	GinkgoHelper()
	redrive := w.GetRedrive(name)
	before := redrive.DeepCopy()
	change(&redrive.Spec)
	Expect(w.Kube.Patch(ctx(), redrive, client.MergeFrom(before))).To(Succeed())
}

// GetRedrive reads a Redrive.
func (w *World) GetRedrive(name string) *v1alpha1.Redrive {
	GinkgoHelper()
	redrive := &v1alpha1.Redrive{}
	Expect(w.Kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: name}, redrive)).To(Succeed())
	return redrive
}

// EventuallyRedrive waits until a Redrive matches, and returns it.
func (w *World) EventuallyRedrive(name string, matchers ...types.GomegaMatcher) *v1alpha1.Redrive {
	GinkgoHelper()
	var redrive *v1alpha1.Redrive
	Eventually(func() *v1alpha1.Redrive {
		redrive = w.GetRedrive(name)
		return redrive
	}).Should(SatisfyAll(matchers...))
	return redrive
}

// Purge creates a Purge with a spec in YAML.
func (w *World) Purge(name, spec string) {
	GinkgoHelper()
	purge := &v1alpha1.Purge{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	Expect(yaml.UnmarshalStrict([]byte(spec), &purge.Spec)).To(Succeed())
	Expect(w.Kube.Create(ctx(), purge)).To(Succeed())
}

// EditPurge changes the spec of a Purge.
func (w *World) EditPurge(name string, change func(*v1alpha1.PurgeSpec)) {
	GinkgoHelper()
	purge := w.GetPurge(name)
	before := purge.DeepCopy()
	change(&purge.Spec)
	Expect(w.Kube.Patch(ctx(), purge, client.MergeFrom(before))).To(Succeed())
}

// GetPurge reads a Purge.
func (w *World) GetPurge(name string) *v1alpha1.Purge {
	GinkgoHelper()
	purge := &v1alpha1.Purge{}
	Expect(w.Kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: name}, purge)).To(Succeed())
	return purge
}

// EventuallyPurge waits until a Purge matches, and returns it.
func (w *World) EventuallyPurge(name string, matchers ...types.GomegaMatcher) *v1alpha1.Purge {
	GinkgoHelper()
	var purge *v1alpha1.Purge
	Eventually(func() *v1alpha1.Purge {
		purge = w.GetPurge(name)
		return purge
	}).Should(SatisfyAll(matchers...))
	return purge
}

// EventuallyMessages waits until the number of ready messages in a queue matches.
func (w *World) EventuallyMessages(queue string, matcher types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(w.VHost.Ready).WithArguments(queue).Should(matcher, "messages of the queue "+queue)
}

// Queues applies count ConsumerQueues and returns their names.
func (w *World) Queues(prefix string, count int, spec string) []string {
	GinkgoHelper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", prefix, i)
		w.Queue(names[i], spec)
	}
	return names
}

// Delete deletes ConsumerQueues and does not wait until they are gone.
func (w *World) Delete(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
		Expect(w.Kube.Delete(ctx(), cq)).To(Succeed())
	}
}

// Get reads a ConsumerQueue.
func (w *World) Get(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	cq := &v1alpha1.ConsumerQueue{}
	Expect(w.Kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: name}, cq)).To(Succeed())
	return cq
}

// Exists reports whether there is a ConsumerQueue with this name.
func (w *World) Exists(name string) bool {
	err := w.Kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: name}, &v1alpha1.ConsumerQueue{})
	return !apierrors.IsNotFound(err)
}

// All lists the ConsumerQueues of the namespace.
func (w *World) All() []v1alpha1.ConsumerQueue {
	GinkgoHelper()
	list := &v1alpha1.ConsumerQueueList{}
	Expect(w.Kube.List(ctx(), list, client.InNamespace(w.Namespace))).To(Succeed())
	return list.Items
}

// EventuallyConnection waits until the BrokerConnection "default" matches, and returns it.
func (w *World) EventuallyConnection(matchers ...types.GomegaMatcher) *v1alpha1.BrokerConnection {
	GinkgoHelper()
	var bc *v1alpha1.BrokerConnection
	Eventually(func() *v1alpha1.BrokerConnection {
		bc = w.Connection()
		return bc
	}).Should(SatisfyAll(matchers...))
	return bc
}

// Connection reads the BrokerConnection "default".
func (w *World) Connection() *v1alpha1.BrokerConnection {
	GinkgoHelper()
	bc := &v1alpha1.BrokerConnection{}
	Expect(w.Kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: "default"}, bc)).To(Succeed())
	return bc
}

// Eventually waits until a ConsumerQueue matches and its status is about its newest generation, and returns it. It also checks
// that kstatus understands the status.
func (w *World) Eventually(name string, matchers ...types.GomegaMatcher) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	var cq *v1alpha1.ConsumerQueue
	Eventually(func() *v1alpha1.ConsumerQueue {
		cq = w.Get(name)
		return cq
	}).Should(SatisfyAll(append(matchers, BeCurrent())...))
	expectTidy(cq.Status.Conditions)
	return cq
}

// EventuallyDeleting waits until the conditions Ready and Reconciling of a ConsumerQueue have the reason Terminating.
func (w *World) EventuallyDeleting(name string) {
	GinkgoHelper()
	Eventually(func() *v1alpha1.ConsumerQueue { return w.Get(name) }).Should(SatisfyAll(
		Condition("Ready", metav1.ConditionFalse, "Terminating"), Condition("Reconciling", metav1.ConditionTrue, "Terminating")))
}

// Ready waits until a ConsumerQueue is Ready without drift and without a required recreation, and returns it.
func (w *World) Ready(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	return w.Eventually(name, Condition("Ready", metav1.ConditionTrue, "InSync"),
		Condition("Drifted", metav1.ConditionFalse, "InSync"), Condition("RecreationRequired", metav1.ConditionFalse, "InSync"))
}

// Counted waits until a ConsumerQueue is Ready and its status has message counts. After that, the manager writes nothing while
// nothing happens. It is for managers that count messages.
func (w *World) Counted(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	w.Ready(name)
	return w.Eventually(name, HaveField("Status.Messages", Not(BeNil())))
}

// AllReady waits until the namespace has count ConsumerQueues and all of them are Ready. It polls slowly, because a long list is
// expensive.
func (w *World) AllReady(count int) {
	GinkgoHelper()
	Eventually(func() (waiting []string) {
		all := w.All()
		for i := range all {
			if !IsReady(&all[i]) {
				waiting = append(waiting, all[i].Name)
			}
		}
		if len(waiting) == 0 && len(all) != count {
			waiting = append(waiting, fmt.Sprintf("there are %d, not %d", len(all), count))
		}
		return waiting
	}).WithTimeout(deadline.For(time.Minute)).WithPolling(500 * time.Millisecond).Should(BeEmpty())
}

// IsReady reports whether a ConsumerQueue is Ready in its newest generation.
func IsReady(cq *v1alpha1.ConsumerQueue) bool {
	return meta.IsStatusConditionTrue(cq.Status.Conditions, v1alpha1.ConditionReady) && cq.Status.ObservedGeneration == cq.Generation
}
