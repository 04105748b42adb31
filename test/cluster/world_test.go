package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
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

// world is a namespace and a vhost, and a manager that reaches the vhost through one node of the cluster.
type world struct {
	// vhost is the test's own way to the vhost: through a node that the test leaves alone.
	vhost     *brokers.VHost
	namespace string
}

// newWorld starts a manager that is connected to one node, for a test that looks at the vhost through another.
func newWorld(connected, looking int) *world {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cluster-"}}
	Expect(kube.Create(ctx(), namespace)).To(Succeed())
	w := &world{vhost: nodes.Node(looking).NewVHost(GinkgoTB()), namespace: namespace.Name}
	DeferCleanup(nodes.StartAll) // before the vhost is deleted, which a part of a cluster cannot do
	DeferCleanup(w.clear)
	node := nodes.Node(connected)
	Expect(kube.Create(ctx(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "rabbitmq", Namespace: w.namespace}, StringData: map[string]string{
			"username": node.Username, "password": node.Password, "amqpURI": node.AMQPURI, "managementURI": node.ManagementURI,
		},
	})).To(Succeed())
	Expect(kube.Create(ctx(), &v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: w.namespace},
		Spec: v1alpha1.BrokerConnectionSpec{
			SecretRef: &v1alpha1.SecretReference{Name: "rabbitmq"}, VHost: w.vhost.Name, ResyncInterval: "1s",
		},
	})).To(Succeed())
	w.startManager()
	return w
}

// clear removes what is left when the manager has ended: nobody sees to finalizers any more.
func (w *world) clear() {
	GinkgoHelper()
	background := context.Background()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	queues, connections := &v1alpha1.ConsumerQueueList{}, &v1alpha1.BrokerConnectionList{}
	Expect(kube.List(background, queues, client.InNamespace(w.namespace))).To(Succeed())
	Expect(kube.List(background, connections, client.InNamespace(w.namespace))).To(Succeed())
	var objects []client.Object
	for i := range queues.Items {
		objects = append(objects, &queues.Items[i])
	}
	for i := range connections.Items {
		objects = append(objects, &connections.Items[i])
	}
	for _, object := range objects {
		Expect(client.IgnoreNotFound(kube.Patch(background, object, patch))).To(Succeed())
		Expect(client.IgnoreNotFound(kube.Delete(background, object))).To(Succeed())
	}
}

// startManager runs the manager for this namespace until the test ends.
func (w *world) startManager() {
	GinkgoHelper()
	command := exec.Command(managerBinary,
		"--watch-namespaces", w.namespace, "--health-probe-bind-address", "0", "--metrics-bind-address", "0")
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	DeferCleanup(func() {
		Expect(command.Process.Signal(syscall.SIGTERM)).To(Succeed(), "the manager ended by itself")
		Eventually(ended).WithTimeout(deadline.For(10*time.Second)).Should(Receive(BeNil()), "the manager stops in good order")
	})
}

// queues makes ConsumerQueues with a spec given as YAML, and returns their names.
func (w *world) queues(prefix string, count int, spec string) []string {
	GinkgoHelper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", prefix, i)
		cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Name: names[i], Namespace: w.namespace}}
		Expect(yaml.UnmarshalStrict([]byte(spec), &cq.Spec)).To(Succeed())
		Expect(kube.Create(ctx(), cq)).To(Succeed())
	}
	return names
}

func (w *world) remove(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(kube.Delete(ctx(), w.get(name))).To(Succeed())
	}
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

// eventually waits until a ConsumerQueue is as wanted.
func (w *world) eventually(name string, matchers ...types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func() *v1alpha1.ConsumerQueue { return w.get(name) }).Should(SatisfyAll(matchers...))
}

// readyCount counts the ConsumerQueues that are Ready.
func (w *world) readyCount() int {
	GinkgoHelper()
	return len(slices.DeleteFunc(w.all(), notReady))
}

func notReady(cq v1alpha1.ConsumerQueue) bool {
	return !meta.IsStatusConditionTrue(cq.Status.Conditions, "Ready") || cq.Status.ObservedGeneration != cq.Generation
}

// allReady waits until there are so many ConsumerQueues, and all of them are Ready. A list of many is no small question.
func (w *world) allReady(count int) {
	GinkgoHelper()
	Eventually(w.all).WithPolling(time.Second).Should(SatisfyAll(HaveLen(count), Not(ContainElement(Satisfy(notReady)))))
}

// condition matches a resource by one of its conditions.
func condition(name string, value metav1.ConditionStatus, reason string) types.GomegaMatcher {
	return WithTransform(func(object client.Object) string {
		found := meta.FindStatusCondition(conditionsOf(object), name)
		if found == nil {
			return "absent"
		}
		return fmt.Sprintf("%s %s %s: %s", found.Type, found.Status, found.Reason, found.Message)
	}, HavePrefix("%s %s %s:", name, value, reason))
}

// message matches a resource by the message of its Ready condition.
func message(of types.GomegaMatcher) types.GomegaMatcher {
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

// unreachable is what a ConsumerQueue says of a broker that could not be read for three intervals.
func unreachable() []types.GomegaMatcher {
	return []types.GomegaMatcher{
		condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"),
		condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"),
		condition("Drifted", metav1.ConditionUnknown, "BrokerUnreachable"),
		message(ContainSubstring("its status says why")),
		HaveField("Status.Topology", HaveEach(HaveField("State", v1alpha1.StateUnknown))),
	}
}
