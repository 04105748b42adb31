package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("GitOps", func() {
	// Defaults are only set for scalars at the top level. Everything deeper stays as written,
	// and the operator never changes the spec.
	It("sees no difference, because only top-level scalars have defaults", func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ConsumerQueue"))
		Expect(kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: "orders"}, stored)).To(Succeed())
		want := map[string]any{}
		Expect(yaml.Unmarshal([]byte(typed), &want)).To(Succeed())
		maps.Copy(want, map[string]any{
			"deadLetterStrategy": "AtLeastOnce", "driftPolicy": "Correct", "recreatePolicy": "Manual",
			"deletionPolicy": "DeleteIfEmpty", "suspend": false,
		})
		Expect(stored.Object["spec"]).To(Equal(want))
		Expect(stored.GetGeneration()).To(BeEquivalentTo(1), "nobody has written to spec since it was applied")
	})

	// A resource that was Ready when it was suspended stays Ready, so neither kubectl wait nor Flux blocks. spec.suspend stops all
	// work on the resource; conditions keep their values.
	It("does not wait for a suspended resource", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.Queue("orders", `{suspend: true, retry: {maxAttempts: 3}}`)
		cq := w.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"),
			Condition("Ready", metav1.ConditionTrue, "InSync"), NoCondition("Reconciling"), NoCondition("Stalled"))
		Expect(cq.Status.Conditions).To(HaveEach(HaveField("ObservedGeneration", cq.Generation)))
		Expect(kstatusOf(cq)).To(Equal(status.CurrentStatus))
		kube.Kubectl("wait", "-n", w.Namespace, "--for=condition=Ready", "consumerqueue/orders", "--timeout="+deadline.For(5*time.Second).String())

		By("not changing the broker")
		w.VHost.DeleteQueue("orders.dlq")
		Consistently(func() []brokers.Queue { return w.VHost.Definitions().Queues }).Should(HaveLen(4))
		w.Queue("orders", `{suspend: false}`)
		w.Eventually("orders", NoCondition("Suspended"))
		Eventually(func() []brokers.Queue { return w.VHost.Definitions().Queues }).Should(HaveLen(5))
	})

	It("sees a resource that is suspended before it ever became Ready as in progress", func() {
		w := newWorld(newest)
		w.Queue("orders", `{suspend: true}`)
		cq := w.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"),
			Condition("Ready", metav1.ConditionUnknown, "Pending"), NoCondition("Reconciling"), NoCondition("Stalled"))
		Expect(kstatusOf(cq)).To(Equal(status.InProgressStatus))
		Expect(w.VHost.Definitions().Queues).To(BeEmpty())
	})
})

var _ = Describe("kubectl", func() {
	It("lists, waits and explains", func() {
		w := newWorld(newest)
		w.Queue("orders", `{queue: {name: shop.orders}}`)
		kube.Kubectl("wait", "-n", w.Namespace, "--for=condition=Ready", "cqueue/orders", "--timeout="+deadline.For(30*time.Second).String())
		w.Counted("orders")
		table := strings.Split(kube.Kubectl("get", "-n", w.Namespace, "cqueue", "-o", "wide"), "\n")
		Expect(strings.Fields(table[0])).To(Equal([]string{"NAME", "QUEUE", "READY", "DEAD", "DRIFTED", "RECREATE", "REASON", "AGE", "CONNECTION", "ADVISORY", "MESSAGE"}))
		Expect(table[1]).To(MatchRegexp(`^orders +shop\.orders +True +0 +False +False +InSync +\S+ +default +all 7 objects match the spec`))
		Expect(kube.Kubectl("get", "-n", w.Namespace, "warren")).To(And(ContainSubstring("consumerqueue"), ContainSubstring("brokerconnection")))
		w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"))
		Expect(kube.Kubectl("get", "-n", w.Namespace, "bc")).To(ContainSubstring("Connected"))
		Expect(kube.Kubectl("explain", "consumerqueue.spec.retry")).To(And(
			ContainSubstring("maxAttempts"), ContainSubstring("how many times a message is delivered"), ContainSubstring("Publish, Reject, Requeue")))
	})
})

var _ = Describe("The samples", func() {
	samples := map[string]string{ // conformance vectors that have the same result, by file
		"foodies": "seed-000-foodies", "chronicle": "seed-001-chronicle", "chronicle-delayed": "seed-001-chronicle-delayed",
		"freeflow": "seed-002-freeflow", "ratatoskr": "seed-003-ratatoskr", "pipeline": "seed-004-pipeline", "quickstart": "",
	}
	for name, vector := range samples {
		It("work: "+name, func() {
			var given []v1alpha1.ConsumerQueue
			for _, object := range readSample(name) {
				cq := v1alpha1.ConsumerQueue{}
				Expect(yaml.UnmarshalStrict([]byte(object), &cq)).To(Succeed())
				given = append(given, cq)
			}
			if vector != "" {
				for i := range given {
					given[i].Spec.RecreatePolicy = "" // a topology does not depend on it
				}
				Expect(given).To(Equal(conformance.Named(GinkgoTB(), vector).ConsumerQueues))
				return
			}
			w := newWorld(newest)
			for _, cq := range given {
				w.Apply(&cq)
			}
			for _, cq := range given {
				w.Ready(cq.Name)
			}
		})
	}

	It("cover every file", func() {
		files, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "*.yaml"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".yaml")
			if name == "kustomization" || name == "redrive" || name == "purge" || strings.HasPrefix(name, "brokerconnection") {
				continue // applied below
			}
			Expect(samples).To(HaveKey(name))
		}
	})

	It("are accepted by the API server unchanged", func() {
		for _, namespace := range []string{"foodies", "chronicle", "freeflow", "ratatoskr", "pipeline"} {
			kube.Kubectl("create", "namespace", namespace)
		}
		kube.Kubectl("apply", "--server-side", "--dry-run=server", "-f", filepath.Join("..", "..", "config", "samples", "brokerconnection.yaml"))
		kube.Kubectl("apply", "--server-side", "--dry-run=server", "-f", filepath.Join("..", "..", "config", "samples", "brokerconnection-rabbitmqcluster.yaml"))
		kube.Kubectl("apply", "--server-side", "--dry-run=server", "-k", filepath.Join("..", "..", "config", "samples"))
		kube.Kubectl("create", "--dry-run=server", "-f", filepath.Join("..", "..", "config", "samples", "redrive.yaml"))
		kube.Kubectl("create", "--dry-run=server", "-f", filepath.Join("..", "..", "config", "samples", "purge.yaml"))
	})

	It("connect to the broker when the Secret has its address", func() {
		w := newBareWorld(newest)
		for _, object := range readSample("brokerconnection") {
			content := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(object), &content.Object)).To(Succeed())
			if content.GetKind() == "Secret" {
				w.SecretNamed(content.GetName(), w.Broker.Username, w.Broker.Password)
				continue
			}
			Expect(unstructured.SetNestedField(content.Object, w.VHost.Name, "spec", "vhost")).To(Succeed())
			w.Apply(content)
		}
		w.Queue("orders", `{}`)
		w.Ready("orders")
	})
})

func readSample(name string) []string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	var objects []string
	for part := range strings.SplitSeq("\n"+string(content), "\n---") {
		if strings.Contains(part, "kind:") {
			objects = append(objects, part)
		}
	}
	return objects
}
