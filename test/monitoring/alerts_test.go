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

// leaderless is the only alert without a resource.
const leaderless = "WarrenOperatorWithoutLeader"

// fault describes a failure and the alerts that must fire.
type fault struct {
	name    string
	happens func()
	fires   func() []string
	quiet   func() string // an alert that must not fire, because it names another cause; nil if there is none
	repair  func()        // nil if the alerts keep firing
}

// Prometheus scrapes a manager for a few namespaces, in which all faults happen at the same time.
var _ = Describe("A Prometheus that scrapes a manager", Ordered, Extended, func() {
	var (
		kube       *APIServer
		manager    *Manager
		prometheus *prometheus
		address    string
		token      string
		// Each world is named after its fault; well has none.
		well, unmanaged, severed, locked, fenced, refused, leaving *world

		worlds  []*world
		tagless brokers.User // the management API refuses the user
	)

	BeforeAll(func() {
		kube = SharedAPIServer()
		for _, w := range []**world{&well, &unmanaged, &severed, &locked, &leaving} {
			*w = newWorld(kube, "administrator")
			worlds = append(worlds, *w)
		}
		for _, w := range []**world{&fenced, &refused} {
			*w = newWorld(kube, "monitoring")
			worlds = append(worlds, *w)
		}
		tagless = broker.NewUser(GinkgoTB())
		fenced.VHost.Grant(tagless, ".*", ".*", ".*")
		var namespaces []string
		for _, w := range worlds {
			namespaces = append(namespaces, w.Namespace)
			w.Queue("orders", `{bindings: [{exchange: {name: events, type: topic}, routingKeys: ["order.#"]}]}`)
		}
		address, token = FreeAddress(), tokenFile(kube)
		manager = kube.StartManager(BuildManager(), namespaces, "--metrics-bind-address="+address, "--message-counts-interval=1s",
			"--leader-elect", "--leader-election-namespace=monitoring")
		prometheus = startPrometheus(address, token)
	})

	fires := func(alert string) {
		GinkgoHelper()
		Eventually(prometheus.fired).Should(ContainElement(alert))
	}
	ends := func(alert string) {
		GinkgoHelper()
		Eventually(prometheus.firing).ShouldNot(ContainElement(alert))
	}

	It("fires no alert while all resources are Ready", func() {
		for _, w := range worlds {
			w.AllReady(1)
		}
		Eventually(func() model.Vector { return prometheus.query(`warren_consumerqueue_messages`) }).Should(HaveLen(3*len(worlds)),
			"three roles in each namespace")
		Eventually(prometheus.firing).Should(BeEmpty())
		found, err := prometheus.Rules(ctx(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Groups).To(HaveLen(1))
		Expect(found.Groups[0].Rules).To(HaveLen(len(rules().Groups[0].Rules)))
	})

	It("finds names and units that follow Prometheus' conventions", func() {
		problems, err := promlint.New(strings.NewReader(scrape(address, token))).Lint()
		Expect(err).NotTo(HaveOccurred())
		Expect(problems).To(BeEmpty())
	})

	It("stores the namespace of the resource, or of the manager if a metric has none", func() {
		var named []any
		for _, w := range worlds {
			named = append(named, HaveField("Metric", HaveKeyWithValue(model.LabelName("namespace"), model.LabelValue(w.Namespace))))
		}
		prometheus.eventually(`warren_connection_up{protocol="amqp"}`, ConsistOf(named...))
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

	untagged := &v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Name: "untagged"}}
	standing := fmt.Sprintf("warren-fence-%d-ABCDEF:someone:orders", time.Now().Add(-2*time.Minute).Unix())
	faults := []fault{
		{
			name:    "a management API that cannot be reached",
			happens: func() { unmanaged.management.Refuse() },
			fires:   func() []string { return []string{unmanaged.is("WarrenBrokerUnreachable", "default")} },
			repair:  func() { unmanaged.management.Accept() },
		},
		{
			name:    "a broker that cannot be reached by AMQP",
			happens: func() { severed.amqp.Refuse() },
			fires:   func() []string { return []string{severed.is("WarrenBrokerUnreachable", "default")} },
			repair:  func() { severed.amqp.Accept() },
		},
		{
			name: "a Secret that is gone",
			happens: func() {
				locked.Kube.Kubectl("delete", "secret", "--namespace="+locked.Namespace, "rabbitmq")
				locked.Kube.Kubectl("patch", "brokerconnection", "--namespace="+locked.Namespace, "default", "--type=merge",
					`--patch={"spec":{"resyncInterval":"2s"}}`) // a new generation does not wait for the Secret
			},
			fires:  func() []string { return []string{locked.is("WarrenBrokerUnreachable", "default")} },
			repair: func() { locked.Secret(locked.user.Username, locked.user.Password) },
		},
		{
			name:    "drift that is not to be corrected",
			happens: func() { well.Queue("reported", `{driftPolicy: Report, retry: {policy: None}}`) },
			fires:   func() []string { return []string{well.is("WarrenDriftNotCorrected", "reported")} },
			repair:  func() { well.Queue("reported", `{driftPolicy: Correct, retry: {policy: None}}`) },
		},
		{
			name: "a queue that must be recreated",
			happens: func() {
				well.VHost.DeclareQueue("invoices", map[string]any{"x-queue-type": "classic"})
				well.Queue("invoices", `{retry: {policy: None}}`)
			},
			fires: func() []string { return []string{well.is("WarrenRecreationRequired", "invoices")} },
			quiet: func() string { return well.is("WarrenDriftNotCorrected", "invoices") },
		},
		{
			name:    "a ConsumerQueue that is Stalled",
			happens: func() { well.Queue("rival", `{queue: {name: orders}, retry: {policy: None}}`) },
			fires:   func() []string { return []string{well.is("WarrenConsumerQueueStalled", "rival")} },
			repair:  func() { well.Delete("rival") },
		},
		{
			name: "a BrokerConnection that does not exist, and a Redrive that waits for it",
			happens: func() {
				well.Queue("lost", `{connectionRef: {name: typo}}`)
				well.Redrive("waits", `{consumerQueueRef: {name: lost}}`)
			},
			fires: func() []string {
				return []string{well.is("WarrenConnectionMissing", "typo"), well.is("WarrenRedriveOrPurgeWaiting", "waits")}
			},
			repair: func() {
				well.Kube.Kubectl("delete", "redrive", "--namespace="+well.Namespace, "waits")
				well.Delete("lost")
			},
		},
		{
			name:    "a Redrive that cannot start",
			happens: func() { well.Redrive("fails", `{consumerQueueRef: {name: nobody}}`) },
			fires:   func() []string { return []string{well.is("WarrenRedriveOrPurgeFailed", "fails")} },
			repair:  func() { well.Kube.Kubectl("delete", "redrive", "--namespace="+well.Namespace, "fails") },
		},
		{
			name: "a BrokerConnection that was never Ready though its broker answers",
			happens: func() {
				fenced.SecretNamed("untagged", tagless.Username, tagless.Password)
				untagged.Spec = v1alpha1.BrokerConnectionSpec{
					SecretRef: &v1alpha1.LocalObjectReference{Name: "untagged"}, VHost: fenced.VHost.Name, ResyncInterval: "1s",
				}
				fenced.Apply(untagged)
			},
			fires:  func() []string { return []string{fenced.is("WarrenConnectionNotReady", "untagged")} },
			quiet:  func() string { return fenced.is("WarrenBrokerUnreachable", "untagged") },
			repair: func() { Expect(fenced.Kube.Delete(ctx(), untagged)).To(Succeed()) },
		},
		{
			name: "an advisory by which messages can be lost",
			happens: func() {
				well.VHost.SetPolicy("expiring", brokers.Policy{
					Pattern: "^orders.dlq$", ApplyTo: "queues", Definition: map[string]any{"message-ttl": 3_600_000},
				})
				for _, code := range []string{"DeadLettersExpire", "ShadowedByPolicy"} {
					prometheus.eventually(fmt.Sprintf(`ALERTS{alertname="WarrenMessagesCanBeLost", name="orders", code=%q}`, code), HaveLen(1))
				}
			},
			fires:  func() []string { return []string{well.is("WarrenMessagesCanBeLost", "orders")} },
			repair: func() { well.VHost.DeletePolicy("expiring") },
		},
		{
			name:    "dead letters that grow, and that wait",
			happens: func() { well.VHost.Publish("", "orders.dlq", "first", "second") },
			fires: func() []string {
				return []string{well.is("WarrenDeadLettersGrowing", "orders"), well.is("WarrenDeadLettersWaiting", "orders")}
			},
		},
		{
			name: "dead letters whose queue is full",
			happens: func() {
				well.Queue("jammed", `{queue: {messageTTL: 1s}, retry: {policy: None}, deadLetter: {queue: {maxLength: 1, overflow: RejectPublish}}}`)
				well.Ready("jammed")
				well.VHost.Publish("", "jammed.dlq", "up to the limit", "above")
				well.VHost.Publish("", "jammed", "first", "second")
			},
			fires: func() []string { return []string{well.is("WarrenDeadLettersStuck", "jammed")} },
		},
		{
			name: "a fence that stands, here one that this user may not take down",
			happens: func() {
				fenced.VHost.SetPolicy(standing, brokers.Policy{
					Pattern: "^orders$", ApplyTo: "queues", Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
				})
			},
			fires:  func() []string { return []string{fenced.is("WarrenFenceStanding", "default")} },
			repair: func() { fenced.VHost.DeletePolicy(standing) },
		},
		{
			name:    "a vhost that is not read any more though the broker answers, here with a refusal",
			happens: func() { broker.SetTags(GinkgoTB(), refused.user) },
			fires:   func() []string { return []string{refused.is("WarrenSnapshotStale", "default")} },
			quiet:   func() string { return refused.is("WarrenBrokerUnreachable", "default") },
			repair:  func() { broker.SetTags(GinkgoTB(), refused.user, "monitoring") },
		},
		{
			name: "a deletion that waits",
			happens: func() {
				leaving.management.Refuse()
				leaving.Delete("orders")
			},
			fires: func() []string { return []string{leaving.is("WarrenDeletionWaiting", "orders")} },
			repair: func() {
				leaving.management.Accept()
				Eventually(func() bool { return leaving.Exists("orders") }).Should(BeFalse())
			},
		},
	}

	It("scrapes while all faults happen", func() {
		for _, fault := range faults {
			fault.happens()
		}
	})

	for _, fault := range faults {
		It("fires for "+fault.name, func() {
			for _, alert := range fault.fires() {
				fires(alert)
			}
		})
	}

	It("fires no alert for another cause", func() {
		var others []string
		for _, fault := range faults {
			if fault.quiet != nil {
				others = append(others, fault.quiet())
			}
		}
		Consistently(prometheus.firing).ShouldNot(ContainElement(BeElementOf(others)))
		well.Eventually("rival", Condition("Stalled", metav1.ConditionTrue, "Conflict"))
		prometheus.eventually(fmt.Sprintf(`warren_connection_up{namespace=%q} == 0`, severed.Namespace), HaveLen(1))
		prometheus.eventually(`warren_drift_detected_total{kind="Queue", effect="Recreate"} >= 1`, HaveLen(1))
		prometheus.eventually(fmt.Sprintf(`warren_consumerqueue_messages{namespace=%q, name="orders", role="dead_lettered"}`,
			well.Namespace), HaveExactElements(HaveField("Value", BeNumerically("==", 2))))
	})

	It("ends the alerts of repaired faults", func() {
		repaired := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.repair == nil })
		for _, fault := range repaired {
			fault.repair()
		}
		for _, fault := range repaired {
			for _, alert := range fault.fires() {
				ends(alert)
			}
		}
		prometheus.eventually(fmt.Sprintf(`warren_connection_reconnects_total{namespace=%q} > 0`, severed.Namespace), HaveLen(1))
	})

	It("removes the series of deleted resources", func() {
		leaving.Kube.Kubectl("delete", "brokerconnection", "--namespace="+leaving.Namespace, "default")
		Eventually(func() model.Vector {
			return prometheus.query(fmt.Sprintf(`{__name__=~"warren_.*", namespace=%q}`, leaving.Namespace))
		}).Should(BeEmpty())
	})

	It("counts messages that a Redrive moves", func() {
		well.VHost.Publish("", "orders.dlq", "third", "fourth", "fifth")
		well.Redrive("again", `{consumerQueueRef: {name: orders}, rate: 1}`) // slow enough to be scraped while it runs
		prometheus.eventually(`last_over_time(warren_redrive_in_flight[1h])`, HaveLen(1))
		Eventually(func() model.Vector {
			return prometheus.query(`warren_redrive_messages_total{consumerqueue="orders", kind="Redrive", result="moved"} == 5`)
		}).Should(HaveLen(1))
	})

	It("counts messages that a Purge deletes", func() {
		well.VHost.Publish("", "orders.dlq", "sixth", "seventh")
		Eventually(func() int { return well.VHost.Ready("orders.dlq") }).Should(Equal(2))
		well.Purge("away", `{consumerQueueRef: {name: orders}, expectedAtMost: 2}`)
		Eventually(func() model.Vector {
			return prometheus.query(`warren_purge_messages_total{consumerqueue="orders", result="deleted"} == 2`)
		}).Should(HaveLen(1))
	})

	It("counts deletions of queues", func() {
		well.Queue("short-lived", `{retry: {policy: None}}`)
		well.Ready("short-lived")
		well.Delete("short-lived")
		prometheus.eventually(`sum(warren_queue_deletion_duration_seconds_count) > 0`, HaveLen(1))
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

	It("has scraped exactly the metrics in the reference", func() {
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
		well.Queue("recreated", `{recreatePolicy: WhenEmpty}`)
		well.Queue("waits", `{recreatePolicy: WhenEmpty}`)
		well.Ready("recreated")
		well.Ready("waits")
		well.VHost.Publish("", "waits", "a message")
		for _, name := range []string{"recreated", "waits"} {
			well.Queue(name, `{recreatePolicy: WhenEmpty, queue: {messageTTL: 1h}}`)
		}
		Eventually(values).Should(ConsistOf(asValues(want)...))
	})

	It("fires only one alert when the operator has stopped", func() {
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

// scrape reads the manager's metrics.
func scrape(address, tokenFile string) string {
	GinkgoHelper()
	token, err := os.ReadFile(tokenFile)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+string(token))
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the certificate is self-signed
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response).To(HaveHTTPStatus(http.StatusOK))
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
