package gitops

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/gitenv"
	. "github.com/warren-mq/warren/test/testenv"
)

// world is a namespace, a vhost and a repository for one test.
type world struct {
	*World
	*Repository
}

func newWorld() *world {
	GinkgoHelper()
	w := &world{NewWorld(kube, broker.NewVHost(GinkgoTB())), NewRepository()}
	DeferCleanup(w.Leave)
	return w
}

// samples returns the unchanged files of config/samples, and a kustomization in the root that applies some of them to one
// namespace and changes their BrokerConnection to the vhost.
func (w *world) samples(names ...string) Files {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(Checkout, "config", "samples", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(paths).NotTo(BeEmpty())
	all := Files{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		all[filepath.Join("samples", filepath.Base(path))] = string(text)
	}
	all["kustomization.yaml"] = w.overlay(names)
	return all
}

func (w *world) overlay(resources []string) string {
	GinkgoHelper()
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"namespace": w.Namespace, "resources": resources,
		"patches": []map[string]any{
			setAll("Secret", map[string]string{
				"/stringData/username": w.Broker.Username, "/stringData/password": w.Broker.Password,
				"/stringData/amqpURI": w.Broker.AMQPURI, "/stringData/managementURI": w.Broker.ManagementURI,
			}),
			setAll("BrokerConnection", map[string]string{"/spec/vhost": w.VHost.Name}),
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// setAll returns a patch of a kustomization for all resources of a kind.
func setAll(kind string, values map[string]string) map[string]any {
	patch := ""
	for path, value := range values {
		patch += fmt.Sprintf("- {op: add, path: %s, value: %q}\n", path, value)
	}
	return map[string]any{"target": map[string]string{"kind": kind}, "patch": patch}
}

// addRabbitmqCluster adds a RabbitmqCluster with its resources and makes the BrokerConnection use it.
func (w *world) addRabbitmqCluster() {
	GinkgoHelper()
	w.SecretNamed("rabbitmq-default-user", w.Broker.Username, w.Broker.Password)
	w.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster", "metadata": map[string]any{"name": "rabbitmq"},
	}})
	kube.Kubectl("patch", "rabbitmqcluster", "rabbitmq", "--namespace="+w.Namespace, "--subresource=status", "--type=merge",
		`--patch={"status":{"defaultUser":{"secretReference":{"name":"rabbitmq-default-user"}}}}`)
}

// versions returns the resourceVersions of all delivered resources, which each write changes.
func (w *world) versions() map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, kind := range []string{"Secret", "BrokerConnection", "ConsumerQueue"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		if kind == "Secret" {
			list.APIVersion = "v1"
		}
		Expect(kube.List(ctx(), list, client.InNamespace(w.Namespace))).To(Succeed())
		for _, object := range list.Items {
			found[kind+" "+object.Name] = object.ResourceVersion
		}
	}
	return found
}

// settledVersions waits until versions did not change for two seconds, so that the operator has written all counts.
func (w *world) settledVersions() map[string]string {
	GinkgoHelper()
	var found map[string]string
	Eventually(func() bool {
		last := found
		found = w.versions()
		return maps.Equal(last, found)
	}).WithPolling(2 * time.Second).Should(BeTrue())
	return found
}

// recreated waits until the queue of a ConsumerQueue has the TTL of two hours.
func (w *world) recreated(name string) {
	GinkgoHelper()
	Eventually(func() []brokers.Queue { return w.VHost.Definitions().Queues }).Should(ContainElement(And(
		HaveField("Name", name), HaveField("Arguments", HaveKeyWithValue("x-message-ttl", BeNumerically("==", 7200000))),
	)))
	w.Eventually(name, Condition("RecreationRequired", metav1.ConditionFalse, "InSync"))
}

// spec returns the spec of a ConsumerQueue in the cluster, as YAML.
func (w *world) spec(name string) string {
	GinkgoHelper()
	text, err := yaml.Marshal(w.Get(name).Spec)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// queues returns the names of the queues in the vhost.
func (w *world) queues() []string {
	GinkgoHelper()
	var names []string
	for _, queue := range w.VHost.Definitions().Queues {
		names = append(names, queue.Name)
	}
	return names
}
