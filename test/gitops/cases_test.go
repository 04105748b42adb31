package gitops

import (
	"maps"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/gitenv"
)

// tool delivers resources from Git to a cluster.
type tool interface {
	// Deliver makes the tool apply a folder of the world's repository to the world's namespace, correct changes, and delete resources that were
	// removed from Git.
	Deliver(w *world, folder string) delivery
}

// delivery is what a tool delivers from one folder: a Kustomization of Flux, or an Application of Argo CD.
type delivery interface {
	// Healthy waits until the tool has delivered the revision and reports all resources as healthy.
	Healthy(revision string)
	// Unhealthy waits until the tool has delivered the revision and reports a ConsumerQueue as failed. The user finds the
	// message in the tool's usual place.
	Unhealthy(revision, name, message string)
	// Refused waits until the tool reports that, and why, the API server refuses the revision.
	Refused(revision, message string)
	// Compare makes the tool compare the cluster with Git and waits until it has.
	Compare()
	// Delete deletes the delivery with its resources and does not wait.
	Delete()
	// IsGone reports whether the deletion has ended.
	IsGone() bool
}

// sampleSets are samples that can be applied together, with their number of ConsumerQueues.
var sampleSets = []struct {
	text   string
	files  []string
	queues int
}{
	{"all samples of the kustomization", []string{"samples"}, 18},
	{"the sample of waits by the broker", []string{"samples/brokerconnection.yaml", "samples/chronicle-delayed.yaml"}, 1},
	{"the sample of a RabbitmqCluster", []string{"samples/brokerconnection-rabbitmqcluster.yaml", "samples/quickstart.yaml"}, 1},
}

// itDeliversSamples defines the specs for each tool and each of its settings.
func itDeliversSamples(by tool) {
	for _, set := range sampleSets {
		It("makes "+set.text+" healthy and finds no further difference", func() {
			w := newWorld()
			w.addRabbitmqCluster()
			revision := w.Commit(w.samples(set.files...))
			d := by.Deliver(w, ".")
			d.Healthy(revision)
			w.AllReady(set.queues)
			w.ExpectExactly()
			for _, cq := range w.All() {
				w.Counted(cq.Name)
			}

			settled := w.settledVersions()
			for range 3 {
				d.Compare()
				d.Healthy(revision)
				Expect(w.versions()).To(Equal(settled), "nothing is written any more")
			}
		})
	}
}

// itDelivers defines the other specs for each tool.
func itDelivers(by tool) {
	It("reports a ConsumerQueue that Warren refuses as failed until it is fixed in Git", func() {
		w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{}`)})
		revision := w.Commit(Files{"orders.yaml": ConsumerQueue("orders",
			`{retry: {exchange: {name: retries, type: topic}, delayTiers: [{delay: 10s, routingKey: "retry.#"}, {delay: 1m, routingKey: retry.1m}]}}`)})
		d.Unhealthy(revision, "orders", `the routing keys "retry.#" and "retry.1m" of retry.delayTiers overlap`)
		d.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{}`)}))
	})

	It("reports why the API server refuses a ConsumerQueue, and keeps the existing one", func() {
		w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{retry: {maxAttempts: 3}}`)})
		before := w.spec("orders")
		d.Refused(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{retry: {strategy: Requeue, delayTiers: [{delay: 10s}]}}`)}),
			"spec.retry")
		Expect(w.spec("orders")).To(Equal(before))
		w.Ready("orders")
		d.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{retry: {maxAttempts: 4}}`)}))
	})

	It("reports a ConsumerQueue with a changed TTL as failed and names the argument", func() {
		w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 1h}}`)})
		held := w.VHost.Definitions()
		revision := w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 2h}}`)})
		d.Unhealthy(revision, "orders", "x-message-ttl is 3600000, should be 7200000")
		Expect(w.VHost.Definitions()).To(Equal(held), "nothing is recreated")
		d.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 1h}}`)}))
	})

	for _, recreation := range []string{"recreatePolicy: WhenEmpty", "recreatePolicy: Migrate, recreation: {approval: Automatic}"} {
		It("stays healthy while a queue with a changed TTL is recreated, with "+recreation, func() {
			w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 1h}, `+recreation+`}`)})
			d.Healthy(w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 2h}, `+recreation+`}`)}))
			w.recreated("orders")
			w.ExpectExactly()
		})
	}

	It("reports a recreation that waits for an approval as failed, and keeps the approval, which is not in Git", func() {
		w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 1h}, recreatePolicy: Migrate}`)})
		w.VHost.Publish("", "orders", "kept")
		revision := w.Commit(Files{"orders.yaml": ConsumerQueue("orders", `{queue: {messageTTL: 2h}, recreatePolicy: Migrate}`)})
		d.Unhealthy(revision, "orders", "run kubectl warren approve")
		kube.Kubectl("annotate", "consumerqueue", "orders", "--namespace", w.Namespace, "--field-manager=warren-plugin", // as the plugin does
			v1alpha1.ApproveRecreationAnnotation+"="+w.Get("orders").Status.PlanHash)
		w.recreated("orders")
		d.Compare()
		d.Healthy(revision)
		w.ExpectExactly()
		Expect(w.Get("orders").Annotations).To(HaveKey(v1alpha1.ApproveRecreationAnnotation))
	})

	It("reverts manual changes and deletes resources that were removed from Git", func() {
		w, d := newDelivery(by, Files{
			"orders.yaml":   ConsumerQueue("orders", `{retry: {maxAttempts: 3}}`),
			"invoices.yaml": ConsumerQueue("invoices", `{}`),
		})
		before := w.spec("orders")
		kube.Kubectl("patch", "consumerqueue", "orders", "--namespace", w.Namespace, "--type=merge", "--patch", `{"spec":{"retry":{"maxAttempts":7}}}`)
		Eventually(func() string { return w.spec("orders") }).Should(Equal(before))
		w.Ready("orders")

		revision := w.Remove("invoices.yaml")
		d.Healthy(revision)
		Eventually(func() bool { return w.Exists("invoices") }).WithTimeout(deadline.For(time.Minute)).Should(BeFalse())
		Expect(w.queues()).To(HaveEach(HavePrefix("orders")))
		w.Ready("orders")
		w.ExpectExactly()
	})

	It("deletes ConsumerQueues, BrokerConnection and Secret together, and their queues at the broker", func() {
		w, d := newDelivery(by, Files{"orders.yaml": ConsumerQueue("orders", `{}`), "invoices.yaml": ConsumerQueue("invoices", `{}`)})
		d.Delete()
		gone(d)
		Eventually(w.versions).Should(BeEmpty())
		Expect(w.queues()).To(BeEmpty())
	})

	It("deletes ConsumerQueues, BrokerConnection and Secret one after the other, in any order", func() {
		var rows []*deletions
		for _, order := range []string{
			"queues connection secret", "queues secret connection", "connection queues secret",
			"connection secret queues", "secret queues connection", "secret connection queues",
		} {
			rows = append(rows, newDeletions(by, strings.Fields(order)))
		}
		for _, row := range rows {
			row.begin()
		}
		Eventually(func() (left int) {
			for _, row := range rows {
				left += row.proceed()
			}
			return left
		}).WithTimeout(deadline.For(3 * time.Minute)).Should(BeZero())
		for _, row := range rows {
			Eventually(row.world.versions).WithTimeout(deadline.For(90 * time.Second)).Should(BeEmpty())
		}
	})
}

// deletions deletes several deliveries to one world one after the other.
type deletions struct {
	world    *world
	revision string
	left     []delivery
}

// newDeletions delivers a ConsumerQueue, a BrokerConnection and a Secret from one folder each.
func newDeletions(by tool, folders []string) *deletions {
	GinkgoHelper()
	w := newWorld()
	all := Access(w.World, "")
	d := &deletions{world: w, revision: w.Commit(Files{
		"secret/secret.yaml": all["secret.yaml"], "connection/brokerconnection.yaml": all["brokerconnection.yaml"],
		"queues/orders.yaml": ConsumerQueue("orders", `{}`),
	})}
	for _, folder := range folders {
		d.left = append(d.left, by.Deliver(w, folder))
	}
	return d
}

// begin deletes the first delivery when all are healthy.
func (d *deletions) begin() {
	GinkgoHelper()
	for _, delivery := range d.left {
		delivery.Healthy(d.revision)
	}
	d.left[0].Delete()
}

// proceed deletes the next delivery when the previous one is gone, and returns how many are left.
func (d *deletions) proceed() int {
	GinkgoHelper()
	if len(d.left) > 0 && d.left[0].IsGone() {
		d.left = d.left[1:]
		if len(d.left) > 0 {
			d.left[0].Delete()
		}
	}
	return len(d.left)
}

// newDelivery delivers files with a BrokerConnection and Secret, and waits until all are healthy.
func newDelivery(by tool, given Files) (*world, delivery) {
	GinkgoHelper()
	w := newWorld()
	all := Access(w.World, "")
	maps.Copy(all, given)
	revision := w.Commit(all)
	d := by.Deliver(w, ".")
	d.Healthy(revision)
	return w, d
}

// gone waits until a deletion has ended. Without the Secret, Warren tries for a minute to delete the objects at the broker.
func gone(d delivery) {
	GinkgoHelper()
	Eventually(d.IsGone).WithTimeout(deadline.For(90 * time.Second)).Should(BeTrue())
}
