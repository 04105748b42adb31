// Package e2e tests Warren with real parts: a kube-apiserver, the controllers as the manager runs
// them, and every RabbitMQ of the matrix. Each test has its own namespace and vhost.
package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/internal/deadletterapi"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	// matrix are the brokers, the newest first. `make test` provides only the newest.
	matrix []brokers.Broker
	// newest is the broker for specs that need only one version of RabbitMQ.
	newest brokers.Broker
	kube   *APIServer
)

func TestE2E(t *testing.T) {
	SetUpGomega(30 * time.Second)
	matrix = brokers.All(t)
	for i := range matrix { // random passwords, so that they can be searched for
		user := matrix[i].NewUser(t, "administrator")
		matrix[i].Username, matrix[i].Password = user.Username, user.Password
	}
	newest = matrix[0]
	RunSpecs(t, "Warren")
}

// shared is what the first process of a run passes to the others: `make test` runs the specs in several processes. One manager works for
// the specs of all processes, like for many namespaces of a cluster.
type shared struct {
	KubeConfig string
	// Log is the path of the manager's log.
	Log string
	// DeadLetters is the address of the manager's dead-letter API.
	DeadLetters DeadLetterServer
}

var (
	// managerLog is the path of the manager's log.
	managerLog       string
	deadLetterServer DeadLetterServer
)

var _ = SynchronizedBeforeSuite(func() []byte {
	log := filepath.Join(GinkgoT().TempDir(), "manager.log")
	file, err := os.Create(log)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(file.Close)
	heard := &witness{}
	LogTo(io.MultiWriter(file, heard))
	server := StartAPIServer()

	listening, stopListening := context.WithCancel(context.Background())
	DeferCleanup(stopListening)
	heard.listen(listening, server)
	DeferCleanup(heard.testify) // after the manager has stopped, because later cleanups run first

	caching, err := controller.CacheOptions("")
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		Scheme: server.Scheme(), Cache: caching, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	deadLetters := NewDeadLetterServer()
	finder, users, err := controller.Setup(ctx, mgr, controller.Options{
		// All specs use one broker, and one broker's ConsumerQueues may use only half of the workers.
		MaxConcurrentReconciles: 64, MessageCountsInterval: time.Second,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(deadletterapi.Setup(mgr, finder, users, deadLetters.Options())).To(Succeed())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(stopped).Should(Receive(BeNil()), "the manager stops cleanly")
	})
	given, err := json.Marshal(shared{KubeConfig: server.KubeConfig, Log: log, DeadLetters: deadLetters})
	Expect(err).NotTo(HaveOccurred())
	return given
}, func(given []byte) {
	from := shared{}
	Expect(json.Unmarshal(given, &from)).To(Succeed())
	managerLog, kube, deadLetterServer = from.Log, Connect(from.KubeConfig), from.DeadLetters
	if GinkgoParallelProcess() > 1 {
		LogTo(GinkgoWriter)
	}
})

// showLog adds the manager's log lines about a namespace to the report of a failed spec.
func showLog(namespace string) {
	GinkgoHelper()
	DeferCleanup(func() {
		if !CurrentSpecReport().Failed() {
			return
		}
		for _, line := range logged(namespace) {
			GinkgoWriter.Print(line)
		}
	})
}

// logged returns the lines of the manager's log that contain a text.
func logged(text string) (lines []string) {
	GinkgoHelper()
	content, err := os.ReadFile(managerLog)
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// onEachBroker creates one spec for each broker of the matrix. It is for results that depend on RabbitMQ's version.
func onEachBroker(text string, body func(broker brokers.Broker), more ...any) {
	GinkgoHelper()
	for i, broker := range matrix {
		It(text+", on RabbitMQ "+broker.Version, ExtendedUnless(i == 0), more, func() { body(broker) })
	}
}

// togetherOnEachBroker creates one container for each broker of the matrix. Its specs share a BeforeAll, which starts
// all slow work at the same time. They run one after another, so the container starts first.
func togetherOnEachBroker(text string, body func(broker brokers.Broker)) {
	GinkgoHelper()
	for i, broker := range matrix {
		Describe(text+", on RabbitMQ "+broker.Version, ExtendedUnless(i == 0), Ordered, Long, ContinueOnFailure, func() { body(broker) })
	}
}
