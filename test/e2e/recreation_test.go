package e2e

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// recreated is a topology with a TTL of its main queue, which has to be recreated for another one.
const recreated = `
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]
retry: {delayTiers: [{delay: 10s}]}
queue: {messageTTL: 1h}
recreatePolicy: `

// edited is the same topology with another TTL.
func edited(policy string) string { return strings.Replace(recreated, "1h", "2h", 1) + policy }

func haveLastResult(result v1alpha1.RecreationOutcome) OmegaMatcher {
	return WithTransform(func(cq *v1alpha1.ConsumerQueue) v1alpha1.RecreationOutcome {
		if cq.Status.Recreation == nil || cq.Status.Recreation.LastResult == nil {
			return ""
		}
		return cq.Status.Recreation.LastResult.Result
	}, Equal(result))
}

var _ = Describe("A queue is recreated", func() {
	It("with WhenEmpty as soon as its consumers are gone, and is Ready until then", func() {
		w := newWorld(newest)
		w.Queue("orders", recreated+"WhenEmpty")
		w.Ready("orders")
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Ack })
		w.VHost.Send("shop", "order.placed", amqp.Publishing{MessageId: "first"})
		Eventually(consumer.Consumed).WithTimeout(deadline.For(5 * time.Second)).Should(HaveLen(1))

		w.Queue("orders", edited("WhenEmpty"))
		waiting := w.Eventually("orders", Condition("RecreationRequired", metav1.ConditionTrue, "WaitingForConsumers"),
			Condition("Ready", metav1.ConditionTrue, "RecreationPending"))
		Expect(kstatusOf(waiting)).To(Equal(status.CurrentStatus), "as Flux and Argo CD ask for it")

		consumer.Stop()
		w.Eventually("orders", haveLastResult(v1alpha1.RecreationCompleted))
		w.Ready("orders")
		w.ExpectExactly()
		w.EventuallyReasons("orders", ContainElements("RecreationStarted", "QueueSwapped", "RecreationFinished"))
	})

	It("with Migrate after an approval, and publishers through its exchange lose nothing", func() {
		w := newWorld(newest)
		w.Queue("orders", recreated+"Migrate")
		w.Ready("orders")
		publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			// Faster publishers are faster than a mover on a busy machine.
			Targets: []traffic.Target{{Exchange: "shop", RoutingKey: "order.placed"}}, Every: 25 * time.Millisecond,
		})
		w.EventuallyMessages("orders", BeNumerically(">", 20))

		w.Queue("orders", edited("Migrate"))
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ApprovalNeeded"))
		before := cq.DeepCopy()
		metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.ApproveRecreationAnnotation, cq.Status.PlanHash)
		Expect(w.Kube.Patch(ctx(), cq, client.MergeFrom(before))).To(Succeed())

		w.Eventually("orders", haveLastResult(v1alpha1.RecreationCompleted))
		w.Ready("orders")
		publisher.Stop()
		Expect(publisher.Counts().Refusals + publisher.Counts().Returned).To(BeZero())
		report := traffic.Account(GinkgoTB(), w.VHost, traffic.Accounting{Publishers: []*traffic.Publisher{publisher}})
		report.NoneLost(GinkgoTB())
		w.ExpectExactly()
	})

	It("with Migrate and approval Automatic, while consumers of the library pause by themselves", Extended, func() {
		w := newWorld(newest)
		contracted := "contract: {configMap: orders-contract}\nrecreation: {approval: Automatic}" + recreated + "Migrate"
		w.Queue("orders", contracted)
		w.Ready("orders")
		consumers := newPausingConsumers(w, 5)
		publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			Targets: []traffic.Target{{Exchange: "shop", RoutingKey: "order.placed"}}, Every: 5 * time.Millisecond,
		})
		Eventually(consumers.count).WithTimeout(deadline.For(10 * time.Second)).Should(BeNumerically(">", 100))

		w.Queue("orders", strings.Replace(contracted, "1h", "2h", 1))
		w.EventuallyReasons("orders", ContainElements("ConsumersPaused"))
		Eventually(func() *v1alpha1.RecreationResult {
			if recreation := w.Get("orders").Status.Recreation; recreation != nil {
				return recreation.LastResult
			}
			return nil
		}).WithTimeout(deadline.For(90*time.Second)).Should(HaveField("Result", v1alpha1.RecreationCompleted),
			"consumers read their contract every 30 s")
		before := consumers.count()
		Eventually(consumers.count).WithTimeout(deadline.For(30*time.Second)).Should(BeNumerically(">", before), "they consume again")
		w.Ready("orders")
		Expect(contractOf(w.configMap("orders-contract")).Paused).To(BeNil())

		publisher.Stop()
		Expect(publisher.Counts().Refusals + publisher.Counts().Returned).To(BeZero())
		Eventually(consumers.missing).WithArguments(publisher.Confirmed()).WithTimeout(deadline.For(30 * time.Second)).Should(BeEmpty())
		consumers.stop()
		Expect(consumers.pauses()).To(HaveEach(BeNumerically(">=", 1)), "each consumer paused")
		w.ExpectExactly()
	})
})

// mounted is a ConfigMap whose contract is read as in a pod that mounts the ConfigMap. It uses no function of Ginkgo, because consumers call
// it until a cleanup stops them.
type mounted client.ObjectKey

func (m mounted) Load(ctx context.Context) (contract.Contract, error) {
	found := &corev1.ConfigMap{}
	if err := kube.Get(ctx, client.ObjectKey(m), found); err != nil {
		return contract.Contract{}, err
	}
	return contract.Parse([]byte(found.Data["contract.json"]))
}

// pausingConsumers are consumers of the library with the contract of ConfigMap orders-contract.
type pausingConsumers struct {
	stop func()

	mu      sync.Mutex
	handled map[string]bool
	paused  []int // how often, by consumer
}

func newPausingConsumers(w *world, count int) *pausingConsumers {
	GinkgoHelper()
	running, cancel := context.WithCancel(ctx())
	c := &pausingConsumers{handled: map[string]bool{}, paused: make([]int, count)}
	var ended sync.WaitGroup
	c.stop = sync.OnceFunc(func() { cancel(); ended.Wait() })
	DeferCleanup(func() { c.stop() })
	uri, err := url.Parse(newest.AMQPURI)
	Expect(err).NotTo(HaveOccurred())
	uri.User, uri.Path = url.UserPassword(newest.Username, newest.Password), "/"+w.VHost.Name
	source := mounted{Namespace: w.Namespace, Name: "orders-contract"}
	for i := range count {
		made, err := consumer.New(consumer.NewConn(consumer.URI(uri.String())), source, c.handle,
			consumer.WithLogger(slog.New(slog.NewTextHandler(GinkgoWriter, nil))),
			consumer.WithObserver(consumer.Observer{State: func(to consumer.Transition) { c.observe(i, to) }}))
		Expect(err).NotTo(HaveOccurred())
		ended.Go(func() {
			defer GinkgoRecover()
			Expect(made.Run(running)).To(Succeed())
		})
	}
	return c
}

func (c *pausingConsumers) handle(_ context.Context, m *consumer.Message[[]byte]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled[m.ID()] = true
	return nil
}

func (c *pausingConsumers) observe(index int, to consumer.Transition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to.To == consumer.StatePaused {
		c.paused[index]++
	}
}

func (c *pausingConsumers) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handled)
}

func (c *pausingConsumers) pauses() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.paused)
}

// missing returns the messages that no consumer has handled.
func (c *pausingConsumers) missing(ids []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return c.handled[id] })
}
