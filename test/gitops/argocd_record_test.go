package gitops

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// scene is a World for a situation.
type scene struct{ *World }

// situations bring ConsumerQueue "orders" or BrokerConnection "default" into the state that a file in testdata records, by kind and name
// of the file.
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
			s.ready()
			s.Queue("orders", `{suspend: true}`)
			s.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"))
			s.VHost.DeleteQueue("orders.dlq")
			s.VHost.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": "quorum"}) // as on RabbitMQ 3.x
			s.VHost.Bind("orders.dlx", "orders.dlq", "", nil)
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
			s.Connect(v1alpha1.BrokerConnectionSpec{Suspend: true})
			s.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		},
		"deleting": func(s *scene) {
			s.ready()
			s.hook()
			s.breakPassword()
			s.Delete("orders")
			s.EventuallyDeleting("orders")
		},
	},
	"BrokerConnection": {
		"pending": func(s *scene) { s.whilePaused(s.connect) },
		"healthy": (*scene).connected,
		"without_secret": func(s *scene) {
			s.Connect(v1alpha1.BrokerConnectionSpec{})
			s.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "SecretNotFound"))
		},
		"wrong_password": func(s *scene) {
			s.Connect(v1alpha1.BrokerConnectionSpec{})
			s.breakPassword()
		},
		"suspended": func(s *scene) {
			s.connected()
			s.Connect(v1alpha1.BrokerConnectionSpec{Suspend: true})
			s.EventuallyConnection(Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		},
	},
}

// wholeRecordings are the situations whose recording contains the whole status. The tests of kubectl warren print it, and test/docs validates
// it with the schemas. The other recordings contain only what Argo CD's Lua reads: the conditions and the observed generation.
var wholeRecordings = []string{"pending", "healthy", "recreation_required"}

// With WARREN_RECORD=1 the specs write the files. Otherwise they compare them with the operator's current status.
var _ = Describe("The testdata of Argo CD's health checks", func() {
	for kind, byName := range situations {
		for name, happens := range byName {
			It("match the operator's status: "+kind+" "+name, func() {
				s := newScene()
				happens(s)
				file := filepath.Join(customizations, kind, "testdata", name+".yaml")
				if os.Getenv("WARREN_RECORD") != "" {
					Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
					Expect(os.WriteFile(file, []byte(s.recording(kind, name)), 0o644)).To(Succeed())
				}
				want, err := os.ReadFile(file)
				Expect(err).NotTo(HaveOccurred())
				Eventually(func() string { return s.recording(kind, name) }).Should(Equal(string(want)),
					"if this change is intended, record it: WARREN_RECORD=1 make e2e-gitops")
			})
		}
	}
})

func newScene() *scene {
	GinkgoHelper()
	s := &scene{NewWorld(kube, broker.NewVHost(GinkgoTB()))}
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
	s.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.Capabilities.Events", true))
}

func (s *scene) ready() {
	GinkgoHelper()
	s.connect()
	s.Queue("orders", `{}`)
	s.Counted("orders")
}

// breakPassword writes a wrong password into the Secret and waits until the broker refuses it.
func (s *scene) breakPassword() {
	GinkgoHelper()
	s.Secret(s.Broker.Username, "wrong")
	s.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "AuthenticationFailed"))
}

// whilePaused pauses the manager until the spec ends, and calls a function whose effect the manager must not see.
func (s *scene) whilePaused(happens func()) {
	GinkgoHelper()
	manager.Pause()
	DeferCleanup(manager.Resume)
	happens()
}

// hook gives the ConsumerQueue the finalizer of an Argo CD hook. Of all resources that are being deleted, Argo CD only computes
// the health of hooks.
func (s *scene) hook() {
	GinkgoHelper()
	hook := s.Get("orders")
	given := client.MergeFrom(hook.DeepCopy())
	controllerutil.AddFinalizer(hook, "argocd.argoproj.io/hook-finalizer")
	Expect(kube.Patch(ctx(), hook, given)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(kube.Patch(ctx, hook, patch))).To(Succeed())
	})
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// recording returns the resource as YAML, with placeholders for values that differ between runs.
func (s *scene) recording(kind, situation string) string {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	name := map[string]string{"ConsumerQueue": "orders", "BrokerConnection": "default"}[kind]
	Expect(kube.Get(ctx(), client.ObjectKey{Namespace: s.Namespace, Name: name}, object)).To(Succeed())
	for _, field := range []string{"managedFields", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	words := []string{s.Namespace, "shop", s.VHost.Name, "shop", s.Broker.Username, "warren", s.Broker.Version, "4.3"}
	for field, word := range map[string]string{"clusterID": "sha256:0", "clusterName": "rabbit@broker", "clusterEndpoint": "broker:5672"} {
		if value, there, _ := unstructured.NestedString(object.Object, "status", "location", field); there {
			words = append(words, value, word)
		}
	}
	if status, there := object.Object["status"].(map[string]any); there && !slices.Contains(wholeRecordings, situation) {
		maps.DeleteFunc(status, func(field string, _ any) bool { return field != "conditions" && field != "observedGeneration" })
	}
	text, err := object.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	text = timestamp.ReplaceAll([]byte(strings.NewReplacer(words...).Replace(string(text))), []byte("2026-01-01T00:00:00Z"))
	Expect(object.UnmarshalJSON(text)).To(Succeed())
	return written(object.Object)
}

// written formats a resource as YAML. Each field of the resource and of its status, and each item of a list there, is one line of JSON,
// which is YAML.
func written(resource map[string]any) string {
	GinkgoHelper()
	lines := &strings.Builder{}
	encoder := json.NewEncoder(lines)
	encoder.SetEscapeHTML(false)
	line := func(name string, value any) {
		lines.WriteString(name)
		Expect(encoder.Encode(value)).To(Succeed())
	}
	for _, field := range []string{"apiVersion", "kind", "metadata", "spec"} {
		line(field+": ", resource[field])
	}
	lines.WriteString("status:\n")
	status, _ := resource["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(status)) {
		items, isList := status[field].([]any)
		if !isList || len(items) == 0 {
			line("  "+field+": ", status[field])
			continue
		}
		lines.WriteString("  " + field + ":\n")
		for _, item := range items {
			line("  - ", item)
		}
	}
	return lines.String()
}
