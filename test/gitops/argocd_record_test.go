package gitops

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// scene is a World whose connection can be cut.
type scene struct {
	*World

	amqp, management *netfault.Proxy
}

// situations bring about, by kind, what the testdata of Argo CD's health checks show: by the name of the file, what happens to
// the ConsumerQueue "orders" or to the BrokerConnection "default".
var situations = map[string]map[string]func(s *scene){
	"ConsumerQueue": {
		"pending": func(s *scene) { s.whilePaused(func() { s.Queue("orders", `{}`) }) },
		"healthy": (*scene).ready,
		"former_generation": func(s *scene) {
			s.ready()
			s.whilePaused(func() { s.Queue("orders", `{queue: {messageTTL: 2h}}`) })
		},
		"without_connection": func(s *scene) {
			s.Queue("orders", `{}`)
			s.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"))
		},
		"unsafe": func(s *scene) {
			s.connect()
			s.Queue("orders", `{queue: {deliveryLimit: BrokerDefault}, retry: {strategy: Reject, exchange: {name: orders.retry}}}`)
			s.Eventually("orders", Condition("Stalled", metav1.ConditionTrue, "UnsafeTopology"))
		},
		"recreation_required": func(s *scene) {
			s.ready()
			s.Queue("orders", `{queue: {messageTTL: 5m}}`)
			s.Eventually("orders", Condition("Stalled", metav1.ConditionTrue, "RecreationRequired"))
		},
		"broker_upgraded": func(s *scene) {
			s.VHost.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": "quorum"}) // as on RabbitMQ 3.x
			s.connect()
			s.Queue("orders", `{}`)
			s.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"),
				Condition("RecreationRequired", metav1.ConditionTrue, "BrokerUpgraded"))
		},
		"suspended": func(s *scene) {
			s.ready()
			s.Queue("orders", `{suspend: true}`)
			s.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		},
		"connection_suspended": func(s *scene) {
			s.ready()
			s.Connect(v1alpha1.BrokerConnectionSpec{Suspend: new(true)})
			s.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		},
		"deleting": func(s *scene) {
			s.ready()
			s.cut()
			s.hook()
			s.Delete("orders")
			s.EventuallyDeleting("orders")
		},
	},
	"BrokerConnection": {
		"pending": func(s *scene) { s.whilePaused(s.connect) },
		"healthy": (*scene).connected,
		"without_secret": func(s *scene) {
			s.Connect(v1alpha1.BrokerConnectionSpec{})
			s.eventuallyConnection(Condition("Ready", metav1.ConditionFalse, "SecretNotFound"))
		},
		"wrong_password": func(s *scene) {
			s.Secret(s.Broker.Username, "wrong")
			s.Connect(v1alpha1.BrokerConnectionSpec{})
			s.eventuallyConnection(Condition("Ready", metav1.ConditionFalse, "AuthenticationFailed"))
		},
		"suspended": func(s *scene) {
			s.connected()
			s.Connect(v1alpha1.BrokerConnectionSpec{Suspend: new(true)})
			s.eventuallyConnection(Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		},
	},
}

// With WARREN_RECORD=1 the files are written anew. Otherwise they are compared with what the operator makes of the same today.
var _ = Describe("The testdata of Argo CD's health checks", func() {
	for kind, files := range situations {
		for name, happens := range files {
			It("are what the operator writes: "+kind+" "+name, func() {
				s := newScene()
				happens(s)
				file := filepath.Join(customizations, kind, "testdata", name+".yaml")
				if os.Getenv("WARREN_RECORD") != "" {
					Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
					Expect(os.WriteFile(file, []byte(s.shown(kind)), 0o644)).To(Succeed())
				}
				want, err := os.ReadFile(file)
				Expect(err).NotTo(HaveOccurred())
				Eventually(func() string { return s.shown(kind) }).Should(Equal(string(want)),
					"to record anew: WARREN_RECORD=1 make e2e-gitops TESTFLAGS=\"-ginkgo.focus='The testdata'\"")
			})
		}
	}
})

func newScene() *scene {
	GinkgoHelper()
	vhost := broker.NewVHost(GinkgoTB())
	s := &scene{
		World: NewWorld(kube, vhost),
		amqp:  netfault.NewProxy(GinkgoTB(), vhost.Broker.AMQPURI), management: netfault.NewProxy(GinkgoTB(), vhost.Broker.ManagementURI),
	}
	s.Broker.AMQPURI, s.Broker.ManagementURI = s.amqp.URI, s.management.URI
	DeferCleanup(s.Leave)
	return s
}

func (s *scene) connect() {
	GinkgoHelper()
	s.Secret(s.Broker.Username, s.Broker.Password)
	s.Connect(v1alpha1.BrokerConnectionSpec{})
}

func (s *scene) connected() {
	GinkgoHelper()
	s.connect()
	s.eventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"))
}

func (s *scene) ready() {
	GinkgoHelper()
	s.connect()
	s.Queue("orders", `{}`)
	s.Ready("orders")
}

func (s *scene) eventuallyConnection(matchers ...types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(s.Connection).Should(SatisfyAll(matchers...))
}

// whilePaused has something happen that the manager does not see yet, and reads nothing more before the manager goes on.
func (s *scene) whilePaused(happens func()) {
	GinkgoHelper()
	Expect(manager.Command.Process.Signal(syscall.SIGSTOP)).To(Succeed())
	DeferCleanup(func() { Expect(manager.Command.Process.Signal(syscall.SIGCONT)).To(Succeed()) })
	happens()
}

// cut has the broker refuse every connection from now on.
func (s *scene) cut() {
	for _, proxy := range []*netfault.Proxy{s.amqp, s.management} {
		proxy.Refuse()
		proxy.Cut()
	}
}

// hook gives the ConsumerQueue the finalizer of what Argo CD calls a hook: of all resources that are being deleted, Argo CD asks
// for the health of hooks alone.
func (s *scene) hook() {
	GinkgoHelper()
	const finalizer = "argocd.argoproj.io/hook-finalizer"
	change := func(change func(client.Object, string) bool) {
		cq := s.Get("orders")
		patch := client.MergeFrom(cq.DeepCopy())
		change(cq, finalizer)
		Expect(kube.Patch(context.Background(), cq, patch)).To(Succeed())
	}
	change(controllerutil.AddFinalizer)
	DeferCleanup(func() { change(controllerutil.RemoveFinalizer) })
}

// volatile is what differs from one run to the next, and says nothing about health.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|127\.0\.0\.1:\d+`)

// shown is the resource as the API server shows it, as YAML, with other words for what differs from one run to the next.
func (s *scene) shown(kind string) string {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	name := map[string]string{"ConsumerQueue": "orders", "BrokerConnection": "default"}[kind]
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: s.Namespace, Name: name}, object)).To(Succeed())
	for _, field := range []string{"managedFields", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	for _, field := range []string{"clusterID", "brokerVersion"} {
		if _, there, _ := unstructured.NestedString(object.Object, "status", field); there {
			Expect(unstructured.SetNestedField(object.Object, "{"+field+"}", "status", field)).To(Succeed())
		}
	}
	text, err := yaml.Marshal(object.Object)
	Expect(err).NotTo(HaveOccurred())
	words := strings.NewReplacer(s.Namespace, "shop", s.VHost.Name, "shop", s.Connection().Status.ClusterName, "rabbit@broker")
	return volatile.ReplaceAllStringFunc(words.Replace(string(text)), func(found string) string {
		if strings.HasPrefix(found, "127") {
			return "broker:port"
		}
		return "2026-01-01T00:00:00Z"
	})
}
