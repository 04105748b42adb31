package deployment

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("An upgrade of Warren", Long, func() {
	for _, version := range []string{"4.3", "4.0", "3.10"} {
		It("keeps what the older one knew, changes nothing at the broker, and goes on from there, on RabbitMQ "+version, func() {
			i := installOlder(brokerOf(version))
			recorded := i.restore()
			before, pausedBefore := i.vhost.Definitions(), i.paused.Definitions()

			By("installing the new manifests over the old ones, and starting the new manager")
			i.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "default"))
			m := startManager(i.cluster)
			i.requestAll()
			want := upgraded(recorded)
			difference := func() string { return cmp.Diff(statuses(want), statuses(i.resources())) }
			Eventually(i.notHandled).Should(BeEmpty())
			Eventually(difference).Should(BeEmpty())
			Consistently(difference, 4*time.Second).Should(BeEmpty())
			Eventually(func() string {
				return i.Kubectl("get", "consumerqueue", "leftover", "--namespace="+team, "--output=jsonpath={.status.messages.asOf}")
			}).ShouldNot(BeEmpty(), "messages are counted from the first look on")
			Expect(i.vhost.Definitions()).To(Equal(before))
			Expect(i.paused.Definitions()).To(Equal(pausedBefore))
			Eventually(i.vhost.Ready).WithArguments("orders").Should(Equal(1))
			Eventually(i.vhost.Ready).WithArguments("leftover.dlq").Should(Equal(1))
			Expect(i.events()).To(BeEmpty())

			i.goOn()
			Expect(m.refused()).To(BeEmpty())
			m.Stop()
		})
	}
})

// brokerOf is the broker of the test environment with a version of RabbitMQ.
func brokerOf(version string) brokers.Broker {
	GinkgoHelper()
	for _, one := range brokers.All(GinkgoTB()) {
		if series(one) == version {
			return one
		}
	}
	Fail("there is no RabbitMQ " + version + " in the test environment: run make test")
	return brokers.Broker{}
}

// restore makes the vhosts and the resources what they were when they were recorded, and returns the resources.
func (i *installation) restore() []*unstructured.Unstructured {
	GinkgoHelper()
	for file, vhost := range map[string]*brokers.VHost{"vhost.json": i.vhost, "paused-vhost.json": i.paused} {
		definitions, err := os.ReadFile(filepath.Join(i.folder(), file))
		Expect(err).NotTo(HaveOccurred())
		vhost.Import(i.special(definitions))
	}
	i.vhost.Publish("", "orders", "a message")
	i.vhost.Publish("", "leftover.dlq", "a message")
	recorded := i.load(filepath.Join(i.folder(), "resources.yaml"))
	for _, resource := range recorded {
		Expect(i.Create(ctx(), resource.DeepCopy(), client.FieldOwner("gitops"))).To(Succeed())
		status := &unstructured.Unstructured{Object: map[string]any{"status": resource.Object["status"]}}
		status.SetGroupVersionKind(resource.GroupVersionKind())
		status.SetNamespace(team)
		status.SetName(resource.GetName())
		applied := client.ApplyConfigurationFromUnstructured(status)
		Expect(i.Status().Apply(ctx(), applied, client.FieldOwner("warren"), client.ForceOwnership)).To(Succeed())
	}
	return recorded
}

// requestAll asks for a new look at the broker, for each resource.
func (i *installation) requestAll() {
	GinkgoHelper()
	for _, kind := range []string{"brokerconnection", "consumerqueue"} {
		i.Kubectl("annotate", kind, "--all", "--namespace="+team, "messaging.warren.dev/requested-at=upgrade")
	}
}

// upgraded is what the new manager makes of the recorded resources. A hash has a new name, and its version, once the manager
// has looked at the broker.
func upgraded(recorded []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	GinkgoHelper()
	list := map[string]*unstructured.Unstructured{}
	for _, resource := range recorded {
		resource = resource.DeepCopy()
		resource.SetGeneration(1)
		list[resource.GetKind()+" "+resource.GetName()] = resource
		topology, found, err := unstructured.NestedSlice(resource.Object, "status", "topology")
		Expect(err).NotTo(HaveOccurred())
		if !found || !isHandled(resource) {
			continue
		}
		for _, entry := range topology {
			renameHash(entry.(map[string]any))
		}
		Expect(unstructured.SetNestedSlice(resource.Object, topology, "status", "topology")).To(Succeed())
		if advisory, told := untoldAdvisories[resource.GetName()]; told {
			Expect(unstructured.SetNestedSlice(resource.Object, []any{advisory}, "status", "advisories")).To(Succeed())
		}
	}
	return list
}

// untoldAdvisories are those that an older Warren did not give, by ConsumerQueue.
var untoldAdvisories = map[string]map[string]any{
	"invoices": {"code": string(v1alpha1.AdvisoryDeadLettersExpire), "name": "invoices.dlq"},
	"parcels":  {"code": string(v1alpha1.AdvisorySharedDeadLetterQueue), "name": "logistics.dlq"},
	"returns":  {"code": string(v1alpha1.AdvisorySharedDeadLetterQueue), "name": "logistics.dlq"},
}

func renameHash(entry map[string]any) {
	if hash, found := entry["shape"]; found {
		entry["lastSyncedHash"] = "v1:" + hash.(string)
		delete(entry, "shape")
	}
}

// isHandled says whether the manager looks at the broker for a resource.
func isHandled(resource *unstructured.Unstructured) bool {
	GinkgoHelper()
	without := []string{v1alpha1.ReasonSuspended, v1alpha1.ReasonConnectionNotReady, v1alpha1.ReasonSecretNotFound}
	return !slices.Contains(without, reasonOf(resource))
}

// statuses are what a status says, but for sentences, which may be worded anew, and what tells that the new manager was there.
func statuses(of map[string]*unstructured.Unstructured) map[string]any {
	GinkgoHelper()
	found := map[string]any{}
	for name, resource := range of {
		status, _, err := unstructured.NestedMap(resource.Object, "status")
		Expect(err).NotTo(HaveOccurred())
		delete(status, "lastHandledReconcileAt")
		delete(status, "messages") // which an older Warren did not tell, as the following
		unstructured.RemoveNestedField(status, "capabilities", "eventsReason")
		for _, list := range []string{"conditions", "changes", "advisories"} {
			entries, _ := status[list].([]any)
			for _, entry := range entries {
				delete(entry.(map[string]any), "message")
				if list == "advisories" { // an older Warren gave no reason
					delete(entry.(map[string]any), "reason")
				}
			}
		}
		found[name] = map[string]any{"status": status, "finalizers": resource.GetFinalizers()}
	}
	return found
}

// notHandled are the resources for which the new manager should look at the broker, and has not yet.
func (i *installation) notHandled() []string {
	GinkgoHelper()
	var names []string
	for name, resource := range i.resources() {
		at, _, err := unstructured.NestedString(resource.Object, "status", "lastHandledReconcileAt")
		Expect(err).NotTo(HaveOccurred())
		if isHandled(resource) && at != "upgrade" {
			names = append(names, name)
		}
	}
	return names
}

// events are the reasons of all Events about the team's resources.
func (i *installation) events() []string {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(i.List(ctx(), list, client.InNamespace(team))).To(Succeed())
	var reasons []string
	for _, event := range list.Items {
		reasons = append(reasons, event.Regarding.Kind+" "+event.Regarding.Name+": "+event.Reason)
	}
	return reasons
}

// goOn does with what was upgraded what can be done with any resource. Each step needs something that the older Warren wrote
// into the status.
func (i *installation) goOn() {
	GinkgoHelper()
	By("removing a delay tier, which goes because Warren declared it")
	i.edit("consumerqueue", "mails", `{"retry": {"delayTiers": [{"delay": "10s", "queueName": "mails.soon", "routingKey": "soon"}]}}`)
	i.eventually("mails", "InSync")
	Eventually(i.queues).ShouldNot(ContainElement("mails.later"))

	By("deleting two that share a dead-letter queue, which goes with the last")
	i.remove("parcels")
	Eventually(i.queues).ShouldNot(ContainElement(HavePrefix("parcels")))
	i.gone("parcels")
	Expect(i.queues()).To(ContainElements("returns", "logistics.dlq"))
	i.remove("returns")
	i.gone("returns")
	Expect(i.queues()).NotTo(ContainElement(SatisfyAny(HavePrefix("returns"), HavePrefix("logistics"))))

	By("emptying a queue that had left the spec, which goes then")
	i.vhost.Purge("leftover.dlq")
	Eventually(i.queues).ShouldNot(ContainElement("leftover.dlq"))

	By("losing a queue while another one needs recreation, which is mended because it was in sync before")
	i.vhost.DeleteQueue("outgrown.dlq")
	Eventually(i.queues).Should(ContainElement("outgrown.dlq"))
	i.eventually("outgrown", "RecreationRequired")

	By("correcting what was only reported, and resuming what was suspended")
	i.edit("consumerqueue", "reported", `{"driftPolicy": "Correct"}`)
	i.edit("consumerqueue", "stopped", `{"suspend": false}`)
	i.edit("brokerconnection", "paused", `{"suspend": false}`)
	for _, name := range []string{"reported", "stopped", "elsewhere"} {
		i.eventually(name, "InSync")
	}
	Eventually(i.oldHashes).Should(BeEmpty())

	By("deleting the one that has a queue, which the one in conflict gets, with its message")
	i.remove("orders")
	i.gone("orders")
	i.eventually("rival", "InSync")
	Eventually(i.vhost.Ready).WithArguments("orders").Should(Equal(1))
	i.remove("legacy")
	i.gone("legacy")
	Expect(i.queues()).NotTo(ContainElement(HavePrefix("legacy")))
}

// eventually waits until a ConsumerQueue's status speaks of its newest generation, with a reason of Ready. What the older Warren
// had applied and is not so any more is gone then.
func (i *installation) eventually(name, reason string) {
	GinkgoHelper()
	Eventually(func() string { return i.reasons()["ConsumerQueue "+name] }).Should(Equal(reason), name)
	cq := &v1alpha1.ConsumerQueue{}
	Expect(i.Get(ctx(), client.ObjectKey{Namespace: team, Name: name}, cq)).To(Succeed())
	if reason == v1alpha1.ReasonInSync {
		Expect(cq.Status.Changes).To(BeEmpty(), name)
		Expect(cq).To(SatisfyAll(NoCondition("Stalled"), NoCondition("Reconciling"), NoCondition("Suspended")), name)
	}
}

// oldHashes are the ConsumerQueues whose status has what an older Warren wrote.
func (i *installation) oldHashes() []string {
	GinkgoHelper()
	list := &v1alpha1.ConsumerQueueList{}
	Expect(i.List(ctx(), list, client.InNamespace(team))).To(Succeed())
	var names []string
	for _, cq := range list.Items {
		if slices.ContainsFunc(cq.Status.Topology, func(e v1alpha1.TopologyEntry) bool { return e.Shape != "" }) {
			names = append(names, cq.Name)
		}
	}
	return names
}

func (i *installation) gone(name string) {
	GinkgoHelper()
	Eventually(func() bool {
		err := i.Get(ctx(), client.ObjectKey{Namespace: team, Name: name}, &v1alpha1.ConsumerQueue{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), name)
}

// queues are the names of all queues of the vhost.
func (i *installation) queues() []string {
	GinkgoHelper()
	var names []string
	for _, queue := range i.vhost.Definitions().Queues {
		names = append(names, queue.Name)
	}
	return names
}
