// Package plugin tests kubectl warren as users run it: kubectl starts the built binary. The API server, the operator and RabbitMQ are real.
package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/internal/deadletterapi"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var (
	broker brokers.Broker
	kube   *APIServer
	// plugins is the directory in which kubectl finds the plugin.
	plugins string
)

func TestPlugin(t *testing.T) {
	SetUpGomega(30 * time.Second)
	broker = brokers.All(t)[0]
	RunSpecs(t, "kubectl warren")
}

type shared struct{ KubeConfig, Plugins string }

var _ = SynchronizedBeforeSuite(func() []byte {
	LogTo(GinkgoWriter)
	folder := BuildPlugin()
	server := StartAPIServer()
	for _, role := range []string{"brokerconnection", "consumerqueue", "redrive"} {
		server.Kubectl("apply", "-f", filepath.Join(Checkout, "config", "rbac", role+"_viewer_role.yaml"))
	}
	startManager(server)
	given, err := json.Marshal(shared{server.KubeConfig, folder})
	Expect(err).NotTo(HaveOccurred())
	return given
}, func(given []byte) {
	from := shared{}
	Expect(json.Unmarshal(given, &from)).To(Succeed())
	kube, plugins = Connect(from.KubeConfig), from.Plugins
})

// startManager runs the operator in this process, for all namespaces, until the suite ends.
func startManager(server *APIServer) {
	GinkgoHelper()
	caching, err := controller.CacheOptions("")
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		Scheme: server.Scheme(), Cache: caching, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionNamespace: WarrenNamespace, LeaderElectionID: "warren.messaging.warren.dev",
		// The Lease survives a stalled machine, and `kubectl warren check` sees it renewed soon.
		LeaseDuration: new(2 * time.Minute), RenewDeadline: new(time.Minute), RetryPeriod: new(500 * time.Millisecond),
	})
	Expect(err).NotTo(HaveOccurred())
	deadLetters := NewProxiedDeadLetterServer(server)
	ctx, cancel := context.WithCancel(context.Background())
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
}

// world is a namespace and a vhost for one test.
type world struct{ *World }

func newWorld() *world {
	GinkgoHelper()
	w := &world{NewWorld(kube, broker.NewVHost(GinkgoTB()))}
	DeferCleanup(w.Leave)
	w.Secret(broker.Username, broker.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{})
	return w
}

// queue applies a ConsumerQueue and waits until it is Ready.
func (w *world) queue(name, spec string) {
	GinkgoHelper()
	w.Queue(name, spec)
	w.Ready(name)
}

// ended is the result of a command.
type ended struct {
	Out, ErrOut string
	Code        int
}

// command returns `kubectl warren` in the namespace of the test.
func (w *world) command(args ...string) *exec.Cmd {
	args = slices.Concat([]string{"warren", args[0], "--namespace=" + w.Namespace}, args[1:])
	command := exec.CommandContext(ctx(), KubectlPath(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kube.KubeConfig, "PATH="+plugins+":"+os.Getenv("PATH"))
	return command
}

// warren runs `kubectl warren` until it exits.
func (w *world) warren(args ...string) ended { return w.answer("", args...) }

// eventuallyWarren runs a read-only `kubectl warren` until its result matches, and returns the result. At first, the API server
// may not know a role, and an earlier browse may still return messages.
func (w *world) eventuallyWarren(matcher types.GomegaMatcher, args ...string) ended {
	GinkgoHelper()
	var last ended
	Eventually(func() ended {
		last = w.warren(args...)
		return last
	}).Should(matcher, "kubectl warren %q", args)
	return last
}

// answer runs `kubectl warren` with an input.
func (w *world) answer(stdin string, args ...string) ended {
	GinkgoHelper()
	command := w.command(args...)
	command.Stdin = bytes.NewBufferString(stdin)
	return run(command)
}

func run(command *exec.Cmd) ended {
	GinkgoHelper()
	out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
	command.Stdout, command.Stderr = out, errOut
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		Expect(err).NotTo(HaveOccurred())
	}
	return ended{out.String(), errOut.String(), command.ProcessState.ExitCode()}
}

// file writes a file and returns its path.
func file(name, content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

func ctx() context.Context { return ContextOfSpec() }

// version returns the version of the broker.
func version() vhost.Version {
	GinkgoHelper()
	parsed, err := vhost.ParseVersion(broker.Version)
	Expect(err).NotTo(HaveOccurred())
	return parsed
}
