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

// fixture is a run of the manager with its own namespace, vhost and user.
type fixture struct {
	*manager
	*World // its vhost contains the topologies

	cluster *cluster
	// other is used only by BrokerConnections.
	other *brokers.VHost
	// user is used only here, so that its password appears nowhere by chance.
	user brokers.User
}

// startFixture starts a manager in a cluster without other managers. It works in the given namespace, or in a new one.
func startFixture(c *cluster, namespace string) *fixture {
	GinkgoHelper()
	s := newFixture(c, namespace)
	s.manager = startManager(c)
	return s
}

// newFixture returns a fixture without a manager.
func newFixture(c *cluster, namespace string) *fixture {
	GinkgoHelper()
	s := &fixture{cluster: c, user: broker.NewUser(GinkgoTB(), "administrator"), other: broker.NewVHost(GinkgoTB())}
	broker.GrantEvents(GinkgoTB(), s.user) // so that drift is detected immediately
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

// runTasks runs the tasks until one of them is refused.
func (s *fixture) runTasks() {
	GinkgoHelper()
	for _, task := range tasks {
		By(task.name)
		if task.start != nil {
			task.start(s)
		}
		s.until(func() error { return task.done(s) })
		if len(s.refused()) > 0 {
			return
		}
	}
}

// clear removes the resources of a manager that was killed.
func (s *fixture) clear() {
	GinkgoHelper()
	s.Clear()
	background := context.Background()
	Expect(s.cluster.DeleteAllOf(background, &corev1.Secret{}, client.InNamespace(s.Namespace))).To(Succeed())
	for _, kind := range []client.Object{&coordinationv1.Lease{}, &corev1.Event{}} {
		Expect(s.cluster.DeleteAllOf(background, kind, client.InNamespace(system))).To(Succeed())
	}
}

func (s *fixture) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}

func (s *fixture) create(object client.Object, name string) {
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
