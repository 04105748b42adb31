package deployment

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/test/brokers"
)

// hack/record-upgrade.sh names the manager of an older Warren. Otherwise there is nothing to record.
var _ = Describe("An older Warren", func() {
	older := os.Getenv("WARREN_RECORD_UPGRADE")
	if older == "" {
		return
	}
	It("is recorded", func() {
		binary = older
		for _, at := range brokers.All(GinkgoTB()) {
			By("on RabbitMQ " + at.Version)
			record(at)
		}
	})
})

// record has the older Warren make everything that a status can tell of, and writes down what is there in the end.
func record(at brokers.Broker) {
	GinkgoHelper()
	i := installOlder(at)
	m := startManager(i.cluster)
	for _, resource := range i.load(filepath.Join(recordings, "given.yaml")) {
		Expect(i.Create(ctx(), resource)).To(Succeed())
	}
	want := map[string]string{
		"BrokerConnection default": "Connected", "BrokerConnection paused": "Connected", "BrokerConnection lost": "SecretNotFound",
		"ConsumerQueue orders": "InSync", "ConsumerQueue invoices": "InSync", "ConsumerQueue payments": "InSync",
		"ConsumerQueue mails": "InSync", "ConsumerQueue parcels": "InSync", "ConsumerQueue returns": "InSync",
		"ConsumerQueue former": "InSync", "ConsumerQueue reported": "InSync", "ConsumerQueue outgrown": "InSync",
		"ConsumerQueue leftover": "InSync", "ConsumerQueue shadowed": "InSync", "ConsumerQueue stopped": "InSync",
		"ConsumerQueue elsewhere": "InSync", "ConsumerQueue nowhere": "ConnectionNotReady",
	}
	if !strings.HasPrefix(at.Version, "4.3") {
		want["ConsumerQueue payments"] = "UnsupportedByBroker"
	}
	Eventually(i.reasons).Should(Equal(want))

	i.live()
	delete(want, "ConsumerQueue former")
	want["ConsumerQueue legacy"], want["ConsumerQueue rival"] = "InSync", "Conflict"
	want["ConsumerQueue reported"], want["ConsumerQueue outgrown"] = "Drifted", "RecreationRequired"
	want["ConsumerQueue stopped"], want["BrokerConnection paused"], want["ConsumerQueue elsewhere"] = "Suspended", "Suspended", "Suspended"
	Eventually(i.reasons).Should(Equal(want))
	Eventually(func() string { return i.advisories("leftover") }).Should(ContainSubstring("message"))
	Eventually(func() string { return i.advisories("shadowed") }).Should(ContainSubstring("ShadowedByPolicy"))
	Consistently(i.reasons, 5*time.Second).Should(Equal(want))
	m.Stop()
	i.write()
}

// live does what users and others do in the course of time.
func (i *installation) live() {
	GinkgoHelper()
	i.remove("former")
	Eventually(i.resources).ShouldNot(HaveKey("ConsumerQueue former"))
	i.add("legacy", map[string]any{})
	i.add("rival", map[string]any{"queue": map[string]any{"name": "orders"}})
	i.vhost.Bind("shop", "orders", "refund.#", nil)
	i.vhost.Publish("", "orders", "a message")
	i.edit("consumerqueue", "reported", `{"driftPolicy": "Report"}`)
	Eventually(i.reasons).Should(HaveKeyWithValue("ConsumerQueue reported", "InSync"))
	i.vhost.DeleteQueue("reported.dlq")
	i.edit("consumerqueue", "outgrown", `{"queue": {"maxLength": 20}}`)
	i.vhost.Publish("", "leftover.dlq", "a message")
	i.edit("consumerqueue", "leftover", `{"deadLetter": {"queue": {"name": "leftover.dead"}}}`)
	i.vhost.SetPolicy("short", brokers.Policy{Pattern: "^shadowed$", Definition: map[string]any{"message-ttl": 60000}, ApplyTo: "queues"})
	i.edit("consumerqueue", "stopped", `{"suspend": true}`)
	i.edit("brokerconnection", "paused", `{"suspend": true}`)
}

func (i *installation) add(name string, spec map[string]any) {
	GinkgoHelper()
	cq := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	cq.SetAPIVersion("messaging.warren.dev/v1alpha1")
	cq.SetKind("ConsumerQueue")
	cq.SetNamespace(team)
	cq.SetName(name)
	Expect(i.Create(ctx(), cq)).To(Succeed())
}

// advisories are all that a ConsumerQueue's status has, as text.
func (i *installation) advisories(name string) string {
	GinkgoHelper()
	text, err := yaml.Marshal(i.queue(name).Status.Advisories)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// write records the resources without what the API server gives each anew, and the definitions.
func (i *installation) write() {
	GinkgoHelper()
	Expect(os.MkdirAll(i.folder(), 0o755)).To(Succeed())
	found := i.resources()
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		resource := found[name]
		kept := &unstructured.Unstructured{Object: map[string]any{"spec": resource.Object["spec"], "status": resource.Object["status"]}}
		kept.SetGroupVersionKind(resource.GroupVersionKind())
		kept.SetName(resource.GetName())
		kept.SetFinalizers(resource.GetFinalizers())
		setObservedGeneration(kept, 1) // that of a resource that is made anew
		text, err := yaml.Marshal(kept.Object)
		Expect(err).NotTo(HaveOccurred())
		documents = append(documents, string(text))
	}
	i.writeFile("resources.yaml", []byte(strings.Join(documents, "---\n")))
	i.writeFile("vhost.json", indented(i.vhost.Export()))
	i.writeFile("paused-vhost.json", indented(i.paused.Export()))
}

func (i *installation) writeFile(name string, text []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(i.folder(), name), i.general(text), 0o644)).To(Succeed())
}

// setObservedGeneration sets that of the status and of its conditions.
func setObservedGeneration(of *unstructured.Unstructured, generation int64) {
	GinkgoHelper()
	Expect(unstructured.SetNestedField(of.Object, generation, "status", "observedGeneration")).To(Succeed())
	conditions, _, err := unstructured.NestedSlice(of.Object, "status", "conditions")
	Expect(err).NotTo(HaveOccurred())
	for _, condition := range conditions {
		condition.(map[string]any)["observedGeneration"] = generation
	}
	Expect(unstructured.SetNestedSlice(of.Object, conditions, "status", "conditions")).To(Succeed())
}
