package deployment

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
)

// shift is one run of the manager, with a namespace, a vhost and a user of its own.
type shift struct {
	*manager

	cluster   *cluster
	namespace string
	// vhost has what the ConsumerQueues ask for; other is for connections alone.
	vhost, other *brokers.VHost
	user         brokers.User
}

// beginShift starts a manager in a cluster where no other one runs. Its work is in the given namespace, or in a new one.
func beginShift(c *cluster, namespace string) *shift {
	GinkgoHelper()
	s := newShift(c, namespace)
	s.manager = startManager(c)
	return s
}

// newShift has no manager yet.
func newShift(c *cluster, namespace string) *shift {
	GinkgoHelper()
	if namespace == "" {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}}
		Expect(c.Create(ctx(), made)).To(Succeed())
		namespace = made.Name
	}
	s := &shift{
		cluster: c, namespace: namespace, user: broker.NewUser(GinkgoTB(), "administrator"),
		vhost: broker.NewVHost(GinkgoTB()), other: broker.NewVHost(GinkgoTB()),
	}
	for _, vhost := range []*brokers.VHost{s.vhost, s.other} {
		vhost.Grant(s.user, ".*", ".*", ".*")
	}
	DeferCleanup(s.clear)
	return s
}

// work has the manager do the works, until one of them is refused.
func (s *shift) work() {
	GinkgoHelper()
	for _, work := range works {
		By(work.name)
		if work.start != nil {
			work.start(s)
		}
		s.until(func() error { return work.done(s) })
		if len(s.refused()) > 0 {
			return
		}
	}
}

// clear removes what a manager that was killed leaves behind.
func (s *shift) clear() {
	GinkgoHelper()
	background := context.Background()
	queues := &v1alpha1.ConsumerQueueList{}
	Expect(s.cluster.List(background, queues, client.InNamespace(s.namespace))).To(Succeed())
	for i := range queues.Items {
		patch := client.MergeFrom(queues.Items[i].DeepCopy())
		queues.Items[i].Finalizers = nil
		Expect(client.IgnoreNotFound(s.cluster.Patch(background, &queues.Items[i], patch))).To(Succeed())
	}
	connections := &v1alpha1.BrokerConnectionList{}
	Expect(s.cluster.List(background, connections, client.InNamespace(s.namespace))).To(Succeed())
	for i := range connections.Items {
		patch := client.MergeFrom(connections.Items[i].DeepCopy())
		connections.Items[i].Finalizers = nil
		Expect(client.IgnoreNotFound(s.cluster.Patch(background, &connections.Items[i], patch))).To(Succeed())
	}
	for _, kind := range []client.Object{&v1alpha1.ConsumerQueue{}, &v1alpha1.BrokerConnection{}, &corev1.Secret{}} {
		Expect(s.cluster.DeleteAllOf(background, kind, client.InNamespace(s.namespace))).To(Succeed())
	}
	for _, kind := range []client.Object{&coordinationv1.Lease{}, &corev1.Event{}} {
		Expect(s.cluster.DeleteAllOf(background, kind, client.InNamespace(system))).To(Succeed())
	}
}

func (s *shift) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

func (s *shift) create(object client.Object, name string) {
	GinkgoHelper()
	object.SetNamespace(s.namespace)
	object.SetName(name)
	Expect(s.cluster.Create(ctx(), object)).To(Succeed())
}

func rabbitmqCluster() *unstructured.Unstructured {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(schema.GroupVersionKind{Group: "rabbitmq.com", Version: "v1beta1", Kind: "RabbitmqCluster"})
	return cluster
}

func isReady(conditions []metav1.Condition, generation int64) error {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != generation {
		return fmt.Errorf("not Ready: %+v", ready)
	}
	return nil
}
