package incluster

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/gitenv"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

const (
	ordersImage = "warren.local/orders:1"
	// shipping is the ConsumerQueue of examples/orders with an exchange, a TTL and a contract.
	shipping = `
contract: {configMap: shipping-contract}
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]
retry: {maxAttempts: 4, delayTiers: [{delay: 2s}, {delay: 5s}, {delay: 10s}]}
queue: {messageTTL: 1h}
recreatePolicy: Migrate
recreation: {approval: Automatic}
`
	// pauseLimit is the longest time until all pods have stopped, and until the first message arrives; see docs/recreation.md.
	pauseLimit = 150 * time.Second
)

var _ = Describe("A queue whose consumers are pods", Ordered, Extended, func() {
	var c *cluster

	BeforeAll(func() {
		loadImages()
		c = prepared.in("team-shipping")
		c.wrap(ordersImage, "./examples/orders")
		c.Kube.Kubectl("create", "namespace", c.Namespace)
		c.helm("install", chart, "--create-namespace", withImage(now), "--set=consumerContracts.enabled=true")
		c.rollOut()
		StartFlux(c.Kube)
	})

	AfterAll(func() {
		RemoveFlux(c.Kube)
		c.helm("uninstall", "--wait")
		c.Kube.Kubectl("delete", "crd", QueuesCRD, ConnectionsCRD, RedrivesCRD, PurgesCRD)
		c.Kube.Kubectl("delete", "namespace", c.Namespace, system)
	})

	It("is recreated after a git push, and its consumers pause by themselves", func() {
		repository := NewRepository()
		deployment, err := os.ReadFile("testdata/shipping.yaml")
		Expect(err).NotTo(HaveOccurred())
		files := Access(c.World, "")
		files["deployment.yaml"], files["queue.yaml"] = string(deployment), ConsumerQueue("shipping", shipping)
		revision := repository.Commit(files)
		kustomization := Deliver(c.World, repository, ".")
		kustomization.Healthy(revision)
		c.Ready("shipping")
		publisher := traffic.Publish(GinkgoTB(), c.VHost, traffic.Publishing{
			Targets: []traffic.Target{{Exchange: "shop", RoutingKey: "order.placed"}}, Every: 20 * time.Millisecond, Body: orderBody,
		})
		Eventually(c.shippingPods).Should(HaveLen(5))
		Eventually(c.handledBy).WithArguments(ever).WithTimeout(deadline.For(30*time.Second)).Should(HaveLen(5), "all pods consume")
		before := c.shippingPods()

		revision = repository.Commit(Files{"queue.yaml": ConsumerQueue("shipping", strings.Replace(shipping, "1h", "2h", 1))})
		c.expectPause()

		c.Ready("shipping")
		c.ExpectExactly()
		Expect(c.VHost.Definitions().Queues).To(ContainElement(And(
			HaveField("Name", "shipping"), HaveField("Arguments", HaveKeyWithValue("x-message-ttl", BeNumerically("==", 7200000))))))
		kustomization.Healthy(revision)
		Expect(c.pause()).To(BeNil())
		c.expectNoneLost(publisher)
		Expect(c.shippingPods()).To(Equal(before), "no pod was restarted, deleted or added")
	})
})

// expectPause follows the pods through a recreation that was just pushed, and prints how long each step took.
func (c *cluster) expectPause() {
	GinkgoHelper()
	pushed := time.Now()
	Eventually(c.pause).Should(Not(BeNil()))
	asked := time.Now()
	Eventually(c.shippingConsumers).WithTimeout(pauseLimit).Should(BeZero())
	stopped := time.Now()
	Eventually(c.consumersMayStart).WithTimeout(deadline.For(30 * time.Second)).Should(BeTrue())
	givingBack := time.Now()
	Eventually(c.handledBy).WithArguments(givingBack).WithTimeout(pauseLimit).Should(Not(BeEmpty()))
	first := slices.MinFunc(c.attemptsSince(givingBack), byTime).at
	Eventually(c.handledBy).WithArguments(givingBack).WithTimeout(pauseLimit).Should(HaveLen(5), "all pods consume again")
	last := time.Now()
	say("the contract asked for a pause %.1f s after the git push, and the last of 5 pods stopped %.1f s later",
		asked.Sub(pushed).Seconds(), stopped.Sub(asked).Seconds())
	say("GivingBack began %.1f s after that", givingBack.Sub(stopped).Seconds())
	say("the first message arrived %.1f s after GivingBack had begun, and the last of 5 pods consumed after %.1f s",
		first.Sub(givingBack).Seconds(), last.Sub(givingBack).Seconds())
	Expect(stopped.Sub(asked)).To(BeNumerically("<=", pauseLimit))
	Expect(first.Sub(givingBack)).To(BeNumerically("<=", pauseLimit))
}

// expectNoneLost stops the publisher and waits until each confirmed order was shipped, or is a dead letter because the consumer
// cannot ship it.
func (c *cluster) expectNoneLost(publisher *traffic.Publisher) {
	GinkgoHelper()
	publisher.Stop()
	counts := publisher.Counts()
	Expect(counts.Refusals + counts.Returned + counts.Unsettled).To(BeZero())
	numbers := make([]int, 0, counts.Confirmed)
	refused := 0
	for _, id := range publisher.Confirmed() {
		numbers = append(numbers, numberOf(id))
		if amountOf(numberOf(id)) == refusedAmount {
			refused++
		}
	}
	Eventually(c.notHandled).WithArguments(numbers).WithTimeout(deadline.For(30 * time.Second)).Should(BeEmpty())
	c.EventuallyMessages("shipping", BeZero())
	c.EventuallyMessages("shipping.dlq", BeNumerically(">=", refused))
	dead := map[int]bool{}
	drained, _ := traffic.Drain(GinkgoTB(), c.VHost, 2*time.Second, "shipping.dlq")
	for _, id := range drained["shipping.dlq"] {
		dead[numberOf(id)] = true
	}
	for _, number := range numbers {
		Expect(dead[number]).To(Equal(amountOf(number) == refusedAmount), "order %d is a dead letter", number)
	}
	say("%d orders were confirmed, none was lost: %d were shipped, %d are dead letters", len(numbers), len(numbers)-refused, refused)
}

// Amounts of orders that examples/orders does not ship on the first attempt.
const (
	lateAmount    = 13 // ships on the third attempt
	refusedAmount = 66 // never ships
)

func amountOf(number int) int { return map[int]int{3: lateAmount, 6: refusedAmount}[number%10] }

// numberOf returns the number of a publisher's message, with which each ID ends.
func numberOf(id string) int {
	number, _ := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	return number
}

func orderBody(id string) []byte {
	return fmt.Appendf(nil, `{"number": %d, "amount": %d}`, numberOf(id), amountOf(numberOf(id)))
}

// notHandled returns the orders for which no pod has begun the attempt that ships the order, or that makes it a dead letter.
func (c *cluster) notHandled(numbers []int) []int {
	GinkgoHelper()
	handled := map[int]bool{}
	for _, each := range c.attemptsSince(ever) {
		if amountOf(each.order) != lateAmount || each.attempt == 3 {
			handled[each.order] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(numbers), func(number int) bool { return handled[number] })
}

// handledBy returns the pods that have handled orders since a time.
func (c *cluster) handledBy(since time.Time) []string {
	GinkgoHelper()
	var pods []string
	for _, each := range c.attemptsSince(since) {
		pods = append(pods, each.pod)
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// attempt is an attempt to ship an order.
type attempt struct {
	pod            string
	at             time.Time
	order, attempt int
}

func byTime(a, b attempt) int { return a.at.Compare(b.at) }

// ever is earlier than all attempts.
var ever = time.Unix(0, 0)

// attemptLine is what a pod prints when an attempt begins, after its name and the time, which kubectl adds.
var attemptLine = regexp.MustCompile(`(?m)^\[(\S+)\] (\S+) .* order (\d+), attempt (\d) of 4$`)

// attemptsSince returns the attempts of all pods since a time.
func (c *cluster) attemptsSince(since time.Time) []attempt {
	GinkgoHelper()
	logs := c.Kube.Kubectl("logs", "--namespace", c.Namespace, "--selector=app=shipping", "--prefix", "--timestamps", "--tail=-1",
		"--since-time="+since.Format(time.RFC3339))
	var attempts []attempt
	for _, found := range attemptLine.FindAllStringSubmatch(logs, -1) {
		at, err := time.Parse(time.RFC3339Nano, found[2])
		Expect(err).NotTo(HaveOccurred(), found[0])
		if at.After(since) {
			order, _ := strconv.Atoi(found[3]) // the expression has digits there
			number, _ := strconv.Atoi(found[4])
			attempts = append(attempts, attempt{pod: found[1], at: at, order: order, attempt: number})
		}
	}
	return attempts
}

// shippingPods returns the running pods with the number of their restarts.
func (c *cluster) shippingPods() map[types.UID]int32 {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.Kube.List(ctx(), list, client.InNamespace(c.Namespace), client.MatchingLabels{"app": "shipping"})).To(Succeed())
	pods := map[types.UID]int32{}
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			pods[pod.UID] = pod.Status.ContainerStatuses[0].RestartCount
		}
	}
	return pods
}

// pause returns what the contract asks the consumers for.
func (c *cluster) pause() *contract.Pause {
	GinkgoHelper()
	found := &corev1.ConfigMap{}
	Expect(c.Kube.Get(ctx(), client.ObjectKey{Namespace: c.Namespace, Name: "shipping-contract"}, found)).To(Succeed())
	document, err := contract.Parse([]byte(found.Data["contract.json"]))
	Expect(err).NotTo(HaveOccurred())
	return document.Paused
}

// consumersMayStart reports whether GivingBack has begun.
func (c *cluster) consumersMayStart() bool {
	GinkgoHelper()
	recreation := c.Get("shipping").Status.Recreation
	return recreation != nil && (recreation.ConsumersMayStart ||
		recreation.LastResult != nil && recreation.LastResult.Result == v1alpha1.RecreationCompleted)
}

// shippingConsumers returns the number of consumers of the queue; zero while the queue does not exist.
func (c *cluster) shippingConsumers() int {
	GinkgoHelper()
	connection, err := c.VHost.Connect("test")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	queue, err := channel.QueueDeclarePassive("shipping", true, false, false, false, nil)
	if brokers.IsNotFound(err) {
		return 0
	}
	Expect(err).NotTo(HaveOccurred())
	return queue.Consumers
}
