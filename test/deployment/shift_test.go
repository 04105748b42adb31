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
	. "github.com/warren-mq/warren/test/testenv"
)

// shift is one run of the manager, with a namespace, a vhost and a user of its own.
type shift struct {
	*manager
	*World // its vhost has what the ConsumerQueues ask for

	cluster *cluster
	// other is for connections alone.
	other *brokers.VHost
	// user is of this shift alone, so that its password is nowhere by chance.
	user brokers.User
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
	s := &shift{cluster: c, user: broker.NewUser(GinkgoTB(), "administrator"), other: broker.NewVHost(GinkgoTB())}
	broker.GrantEvents(GinkgoTB(), s.user) // so that drift is mended many times a second
	if vhost := broker.NewVHost(GinkgoTB()); namespace == "" {
		s.World = NewWorld(c.APIServer, vhost)
	} else {
		s.World = &World{Kube: c.APIServer, Namespace: namespace, VHost: vhost, Broker: broker}
	}
	for _, vhost := range []*brokers.VHost{s.VHost, s.other} {
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
	s.Clear()
	background := context.Background()
	Expect(s.cluster.DeleteAllOf(background, &corev1.Secret{}, client.InNamespace(s.Namespace))).To(Succeed())
	for _, kind := range []client.Object{&coordinationv1.Lease{}, &corev1.Event{}} {
		Expect(s.cluster.DeleteAllOf(background, kind, client.InNamespace(system))).To(Succeed())
	}
}

func (s *shift) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}

func (s *shift) create(object client.Object, name string) {
	GinkgoHelper()
	object.SetNamespace(s.Namespace)
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
