package incluster

import (
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

const chart = "charts/warren"

var _ = Describe("The Helm chart in a cluster", Ordered, func() {
	var (
		c      *cluster
		atHand []string
	)

	BeforeAll(func() {
		loadImages()
		c = prepared.in("team-a")
		Expect(filepath.Join(c.previous, chart)).To(BeADirectory(), "the commit before has no chart; name another one in WARREN_UPGRADE_FROM")
		c.Kube.Kubectl("create", "namespace", "team-a")
		DeferCleanup(func() { c.Kube.Kubectl("delete", "namespace", "team-a", "--wait=false") })
		c.Secret(c.Broker.Username, c.Broker.Password)
		atHand = c.settled("team-a")
	})

	// appears returns the objects that did not exist before the chart.
	appears := func() []string { return added(atHand, c.objects()) }

	It("of the commit before is installed with an older CRD, and a ConsumerQueue becomes Ready", func() {
		c.helm("install", OlderChart(filepath.Join(c.previous, chart)), "--create-namespace", withImage(before))
		c.rollOut()
		c.Connect(v1alpha1.BrokerConnectionSpec{})
		c.Queue("orders", `{}`)
		c.Ready("orders")
		c.VHost.Publish("", "orders", "one", "two")
		Expect(c.Kube.KnowsConsumerTimeout()).To(BeFalse())
	})

	It("is upgraded with its CRDs and other values without a change at the broker", func() {
		declared, events := c.VHost.Definitions(), c.settledWarrenEvents()

		c.helm("upgrade", chart, withImage(now), "--set=replicaCount=2", "--set=podDisruptionBudget.enabled=true")
		c.rollOut()

		Eventually(c.pods).Should(SatisfyAll(HaveLen(2),
			HaveEach(HaveField("Spec.Containers", HaveExactElements(HaveField("Image", now))))))
		Eventually(appears).Should(ContainElement(HavePrefix("PodDisruptionBudget " + system)))
		Expect(c.Kube.KnowsConsumerTimeout()).To(BeTrue())
		leaders := []string{c.pods()[0].Name, c.pods()[1].Name}
		Eventually(c.leader).WithTimeout(deadline.For(30 * time.Second)).Should(BeElementOf(leaders))
		c.Ready("orders")
		Expect(c.VHost.Definitions()).To(Equal(declared))
		Consistently(c.warrenEvents).Should(Equal(events), "an upgrade causes no Events")
		c.correctsDrift()
	})

	It("is rolled back to the commit before and works", func() {
		c.helm("rollback", "1")
		c.rollOut()
		Eventually(c.pods).Should(HaveExactElements(HaveField("Spec.Containers", HaveExactElements(HaveField("Image", before)))))
		Expect(c.Kube.KnowsConsumerTimeout()).To(BeFalse())
		c.correctsDrift()
		c.Ready("orders")
	})

	It("is uninstalled and leaves the CRDs, their resources, and the queues with their messages", func() {
		declared := c.VHost.Definitions()
		c.helm("uninstall", "--wait")
		Eventually(appears).WithTimeout(deadline.For(30 * time.Second)).Should(ConsistOf(
			"CustomResourceDefinition <none> "+QueuesCRD, "CustomResourceDefinition <none> "+ConnectionsCRD,
			"CustomResourceDefinition <none> "+RedrivesCRD, "CustomResourceDefinition <none> "+PurgesCRD,
			"APIService <none> v1alpha1.messaging.warren.dev", // Kubernetes creates it for the CRDs
			"ConsumerQueue team-a orders", "BrokerConnection team-a default",
			"Namespace <none> "+system, "ConfigMap "+system+" kube-root-ca.crt", "ServiceAccount "+system+" default",
			"Lease "+system+" "+lease,
		))
		Expect(c.VHost.Definitions()).To(Equal(declared))
		Eventually(func() int { return c.VHost.Ready("orders") }).Should(Equal(2))
	})

	It("adopts the CRDs when it is installed again, and finds the queues", func() {
		declared := c.VHost.Definitions()
		c.helm("install", chart, withImage(now))
		c.rollOut()
		Expect(c.Kube.KnowsConsumerTimeout()).To(BeTrue())
		c.correctsDrift()
		Expect(c.Ready("orders").Status.Topology).To(HaveEach(HaveField("State", v1alpha1.StateInSync)))
		Expect(c.VHost.Definitions()).To(Equal(declared))
	})

	It("leaves nothing after CRDs and namespace were deleted, too", func() {
		c.Kube.Kubectl("delete", "consumerqueues,brokerconnections", "--all", "--namespace=team-a")
		c.helm("uninstall", "--wait")
		c.Kube.Kubectl("delete", "crd", QueuesCRD, ConnectionsCRD, RedrivesCRD, PurgesCRD)
		c.Kube.Kubectl("delete", "namespace", system)
		Eventually(appears).WithTimeout(deadline.For(30 * time.Second)).Should(BeEmpty())
		Eventually(func() int { return c.VHost.Ready("orders") }).Should(Equal(2), "what holds messages is left at the broker")
	})
})

// helm runs Helm for the release "warren" in the namespace of the operator.
func (c *cluster) helm(verb string, arguments ...string) {
	GinkgoHelper()
	c.script("hack/tool.sh", append([]string{"helm", "--namespace=" + system, verb, "warren"}, arguments...)...)
}

// withImage returns the argument for the chart to use an image.
func withImage(image string) string {
	registry, name, _ := strings.Cut(image, "/")
	repository, tag, _ := strings.Cut(name, ":")
	return "--set=image.registry=" + registry + ",image.repository=" + repository + ",image.tag=" + tag
}
