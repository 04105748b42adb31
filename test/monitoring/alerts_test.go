package monitoring

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// leaderless is the alert that has no resource.
const leaderless = "WarrenOperatorWithoutLeader"

// A manager works for a few namespaces, and a Prometheus scrapes it. In each namespace something goes wrong.
var _ = Describe("A Prometheus that scrapes a manager", Ordered, func() {
	var (
		kube       *APIServer
		manager    *Manager
		prometheus *prometheus
		address    string
		token      string
		// well, cut and fenced are named by what becomes of them.
		well, cut, fenced *world
	)

	BeforeAll(func() {
		kube = SharedAPIServer()
		well, cut, fenced = newWorld(kube, "administrator"), newWorld(kube, "administrator"), newWorld(kube, "monitoring")
		namespaces := []string{well.Namespace, cut.Namespace, fenced.Namespace}
		for _, w := range []*world{well, cut, fenced} {
			w.Queue("orders", `{bindings: [{exchange: {name: events, type: topic}, routingKeys: ["order.#"]}]}`)
		}
		address, token = FreeAddress(), tokenFile(kube)
		manager = kube.StartManager(BuildManager(), namespaces, "--metrics-bind-address="+address, "--message-counts-interval=1s",
			"--leader-elect", "--leader-election-namespace=monitoring")
		prometheus = startPrometheus(address, token)
	})

	fires := func(alert string) {
		GinkgoHelper()
		Eventually(prometheus.firing).Should(ContainElement(alert))
	}
	ends := func(alert string) {
		GinkgoHelper()
		Eventually(prometheus.firing).ShouldNot(ContainElement(alert))
	}

	It("tells of nothing while all is well", func() {
		for _, w := range []*world{well, cut, fenced} {
			w.AllReady(1)
		}
		Eventually(func() model.Vector { return prometheus.query(`warren_consumerqueue_messages`) }).Should(HaveLen(9),
			"three roles in three namespaces")
		Eventually(prometheus.firing).Should(BeEmpty())
		found, err := prometheus.Rules(ctx(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Groups).To(HaveLen(1))
		Expect(found.Groups[0].Rules).To(HaveLen(len(rules().Groups[0].Rules)))
	})

	It("finds names and units by Prometheus' conventions in what the manager serves", func() {
		problems, err := promlint.New(strings.NewReader(scrape(address, token))).Lint()
		Expect(err).NotTo(HaveOccurred())
		Expect(problems).To(BeEmpty())
	})

	It("has the namespace of a resource, not of the manager, and that of the manager where a metric has none", func() {
		prometheus.eventually(`warren_connection_up{protocol="amqp"}`, ConsistOf(
			HaveField("Metric", HaveKeyWithValue(model.LabelName("namespace"), model.LabelValue(well.Namespace))),
			HaveField("Metric", HaveKeyWithValue(model.LabelName("namespace"), model.LabelValue(cut.Namespace))),
			HaveField("Metric", HaveKeyWithValue(model.LabelName("namespace"), model.LabelValue(fenced.Namespace)))))
		prometheus.eventually(`leader_election_master_status{namespace="warren-system"}`, HaveLen(1))
	})

	It("counts drift that is corrected", func() {
		well.VHost.DeleteExchange("orders.dlx")
		Eventually(func() model.Vector {
			return prometheus.query(`warren_drift_corrected_total{kind="Exchange", effect="Declare"} >= 1
				and warren_drift_detected_total{kind="Exchange", effect="Declare"} >= 1`)
		}).Should(HaveLen(1))
		well.Ready("orders")
	})

	It("tells of a broker that cannot be reached, by AMQP or by the management API", func() {
		cut.management.Refuse()
		fires(cut.is("WarrenBrokerUnreachable", "default"))
		cut.management.Accept()
		ends(cut.is("WarrenBrokerUnreachable", "default"))
		cut.amqp.Refuse()
		fires(cut.is("WarrenBrokerUnreachable", "default"))
		prometheus.eventually(`warren_connection_up == 0`, HaveLen(1))
		cut.amqp.Accept()
		ends(cut.is("WarrenBrokerUnreachable", "default"))
		Eventually(func() model.Vector { return prometheus.query(`warren_connection_reconnects_total > 0`) }).Should(HaveLen(1))
	})

	It("tells of a Secret that is gone", func() {
		cut.Kube.Kubectl("delete", "secret", "--namespace="+cut.Namespace, "rabbitmq")
		cut.Kube.Kubectl("patch", "brokerconnection", "--namespace="+cut.Namespace, "default", "--type=merge",
			`--patch={"spec":{"resyncInterval":"2s"}}`) // a new generation does not wait for the Secret to come back
		fires(cut.is("WarrenBrokerUnreachable", "default"))
		cut.Secret(cut.user.Username, cut.user.Password)
		ends(cut.is("WarrenBrokerUnreachable", "default"))
	})

	It("tells of drift that is not to be corrected", func() {
		well.Queue("reported", `{driftPolicy: Report, retry: {policy: None}}`)
		fires(well.is("WarrenDriftNotCorrected", "reported"))
		well.Queue("reported", `{driftPolicy: Correct, retry: {policy: None}}`)
		ends(well.is("WarrenDriftNotCorrected", "reported"))
	})

	It("tells of a queue that must be recreated, and only of that", func() {
		well.VHost.DeclareQueue("invoices", map[string]any{"x-queue-type": "classic"})
		well.Queue("invoices", `{retry: {policy: None}}`)
		fires(well.is("WarrenRecreationRequired", "invoices"))
		Consistently(prometheus.firing).ShouldNot(ContainElement(well.is("WarrenDriftNotCorrected", "invoices")))
		prometheus.eventually(`warren_drift_detected_total{kind="Queue", effect="Recreate"} >= 1`, HaveLen(1))
	})

	It("fires for a ConsumerQueue that is Stalled, and for a BrokerConnection that does not exist", func() {
		well.Queue("rival", `{queue: {name: orders}, retry: {policy: None}}`)
		well.Queue("lost", `{connectionRef: {name: typo}}`)
		well.Eventually("rival", Condition("Stalled", metav1.ConditionTrue, "Conflict"))
		fires(well.is("WarrenConsumerQueueStalled", "rival"))
		fires(well.is("WarrenConnectionMissing", "typo"))
		well.Delete("rival", "lost")
		ends(well.is("WarrenConsumerQueueStalled", "rival"))
		ends(well.is("WarrenConnectionMissing", "typo"))
	})

	It("fires for a BrokerConnection that was never Ready though its broker answers", func() {
		user := broker.NewUser(GinkgoTB()) // no tag: the management API refuses the user
		fenced.VHost.Grant(user, ".*", ".*", ".*")
		fenced.SecretNamed("untagged", user.Username, user.Password)
		connection := &v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Name: "untagged"}, Spec: v1alpha1.BrokerConnectionSpec{
			SecretRef: &v1alpha1.SecretReference{Name: "untagged"}, VHost: fenced.VHost.Name, ResyncInterval: "1s",
		}}
		fenced.Apply(connection)
		fires(fenced.is("WarrenConnectionNotReady", "untagged"))
		Consistently(prometheus.firing).ShouldNot(ContainElement(fenced.is("WarrenBrokerUnreachable", "untagged")))
		Expect(fenced.Kube.Delete(ctx(), connection)).To(Succeed())
		ends(fenced.is("WarrenConnectionNotReady", "untagged"))
	})

	It("fires for an advisory by which messages can be lost", func() {
		well.VHost.SetPolicy("expiring", brokers.Policy{
			Pattern: "^orders.dlq$", ApplyTo: "queues", Definition: map[string]any{"message-ttl": 3_600_000},
		})
		for _, code := range []string{"DeadLettersExpire", "ShadowedByPolicy"} {
			prometheus.eventually(fmt.Sprintf(`ALERTS{alertname="WarrenMessagesCanBeLost", name="orders", code=%q}`, code), HaveLen(1))
		}
		well.VHost.DeletePolicy("expiring")
		ends(well.is("WarrenMessagesCanBeLost", "orders"))
	})

	It("tells of dead letters that grow, and that wait", func() {
		well.VHost.Publish("", "orders.dlq", "first", "second")
		fires(well.is("WarrenDeadLettersGrowing", "orders"))
		fires(well.is("WarrenDeadLettersWaiting", "orders"))
		prometheus.eventually(fmt.Sprintf(`warren_consumerqueue_messages{namespace=%q, name="orders", role="dead_lettered"}`,
			well.Namespace), HaveExactElements(HaveField("Value", BeNumerically("==", 2))))
	})

	It("fires for dead letters whose queue is full", func() {
		well.Queue("jammed", `{queue: {messageTTL: 1s}, retry: {policy: None}, deadLetter: {queue: {maxLength: 1, overflow: RejectPublish}}}`)
		well.Ready("jammed")
		well.VHost.Publish("", "jammed.dlq", "up to the limit", "above")
		well.VHost.Publish("", "jammed", "first", "second")
		fires(well.is("WarrenDeadLettersStuck", "jammed"))
	})

	It("counts what a Redrive moves", func() {
		well.VHost.Publish("", "orders.dlq", "third", "fourth", "fifth")
		well.Redrive("again", `{consumerQueueRef: {name: orders}, rate: 1}`) // it is seen while it runs
		prometheus.eventually(`last_over_time(warren_redrive_in_flight[1h])`, HaveLen(1))
		Eventually(func() model.Vector {
			return prometheus.query(`warren_redrive_messages_total{consumerqueue="orders", kind="Redrive", result="moved"} == 5`)
		}).Should(HaveLen(1))
	})

	It("fires for a Redrive that waits, and for one that cannot start", func() {
		well.Queue("lost", `{connectionRef: {name: typo}}`)
		well.Redrive("waits", `{consumerQueueRef: {name: lost}}`)
		well.Redrive("fails", `{consumerQueueRef: {name: nobody}}`)
		fires(well.is("WarrenRedriveOrPurgeWaiting", "waits"))
		fires(well.is("WarrenRedriveOrPurgeFailed", "fails"))
		well.Kube.Kubectl("delete", "redrive", "--namespace="+well.Namespace, "waits", "fails")
		ends(well.is("WarrenRedriveOrPurgeWaiting", "waits"))
		ends(well.is("WarrenRedriveOrPurgeFailed", "fails"))
		well.Delete("lost")
	})

	It("counts what a Purge deletes", func() {
		well.VHost.Publish("", "orders.dlq", "sixth", "seventh")
		Eventually(func() int { return well.VHost.Ready("orders.dlq") }).Should(Equal(2))
		well.Purge("away", `{consumerQueueRef: {name: orders}, limit: 2}`)
		Eventually(func() model.Vector {
			return prometheus.query(`warren_purge_messages_total{consumerqueue="orders", result="deleted"} == 2`)
		}).Should(HaveLen(1))
	})

	It("tells of a fence that stands, here one that this user may not take down", func() {
		fence := fmt.Sprintf("warren-fence-%d-ABCDEF:someone:orders", time.Now().Add(-2*time.Minute).Unix())
		fenced.VHost.SetPolicy(fence, brokers.Policy{
			Pattern: "^orders$", ApplyTo: "queues", Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		fires(fenced.is("WarrenFenceStanding", "default"))
		fenced.VHost.DeletePolicy(fence)
		ends(fenced.is("WarrenFenceStanding", "default"))
	})

	It("tells of a vhost that is not read any more though the broker answers, here with a refusal", func() {
		broker.SetTags(GinkgoTB(), fenced.user)
		fires(fenced.is("WarrenSnapshotStale", "default"))
		Consistently(prometheus.firing).ShouldNot(ContainElement(fenced.is("WarrenBrokerUnreachable", "default")))
		broker.SetTags(GinkgoTB(), fenced.user, "monitoring")
		ends(fenced.is("WarrenSnapshotStale", "default"))
	})

	It("fires for a deletion that waits, and forgets what is deleted", func() {
		cut.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"))
		cut.management.Refuse()
		cut.Delete("orders")
		fires(cut.is("WarrenDeletionWaiting", "orders"))
		cut.management.Accept()
		Eventually(func() bool { return cut.Exists("orders") }).Should(BeFalse())
		ends(cut.is("WarrenDeletionWaiting", "orders"))
		cut.Kube.Kubectl("delete", "brokerconnection", "--namespace="+cut.Namespace, "default")
		Eventually(func() model.Vector {
			return prometheus.query(fmt.Sprintf(`{__name__=~"warren_.*", namespace=%q}`, cut.Namespace))
		}).Should(BeEmpty())
	})

	It("has data for every query of the dashboard", func() {
		var answers []drawn
		for _, p := range panels() {
			for _, target := range p.Targets {
				var series model.Matrix
				Eventually(func() bool {
					series = prometheus.queryAll(target.expression())
					return slices.ContainsFunc(series, hasNumber)
				}).Should(BeTrue(), "%s: %s", p.Title, target.expression())
				if p.Type != "table" {
					answers = append(answers, drawn{p.Title, target.Legend, series})
				}
			}
		}
		save(answers)
	})

	It("has seen every metric of the reference, and no other", func() {
		values := func() (model.LabelValues, error) {
			found, _, err := prometheus.LabelValues(ctx(), "__name__", []string{`{__name__=~"warren_.*"}`}, prometheus.started, time.Now())
			return found, err
		}
		var want []string
		for _, metric := range metrics.Definitions() {
			if metric.Type == "histogram" {
				want = append(want, metric.Name+"_bucket", metric.Name+"_count", metric.Name+"_sum")
				continue
			}
			want = append(want, metric.Name)
		}
		Eventually(values).Should(ConsistOf(asValues(want)...))
	})

	It("tells of an operator that is gone, and then of nothing else", func() {
		manager.Stop()
		Eventually(prometheus.firing).WithTimeout(deadline.For(20 * time.Second)).Should(ConsistOf(leaderless))
	})
})

func asValues(names []string) []any {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = model.LabelValue(name)
	}
	return list
}

// scrape reads what the manager serves.
func scrape(address, tokenFile string) string {
	GinkgoHelper()
	token, err := os.ReadFile(tokenFile)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+string(token))
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // a certificate that it made itself
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response).To(HaveHTTPStatus(http.StatusOK))
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
