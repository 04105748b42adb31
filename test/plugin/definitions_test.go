package plugin

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/conformance"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("kubectl warren", func() {
	It("prints the contract of a ConsumerQueue with the vhost of its BrokerConnection", func() {
		w := newWorld()
		w.queue("orders", `{}`)
		want := contract.Default("orders")
		want.VirtualHost = w.VHost.Name
		printed := w.warren("contract", "orders")
		Expect(printed).To(SatisfyAll(HaveField("Code", 0), HaveField("ErrOut", BeEmpty())))
		Expect(contract.Parse([]byte(printed.Out))).To(Equal(want))
	})

	It("exports definitions that another vhost can import", func() {
		w := newWorld()
		w.queue("orders", `{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}], deadLetter: {queue: {name: dead}, exchange: {name: dead}}}`)
		w.queue("payments", `{retry: {strategy: Reject}, deadLetter: {queue: {name: dead}}}`)
		exported := w.warren("export", "orders", "payments")
		Expect(exported).To(SatisfyAll(HaveField("Code", 0), HaveField("ErrOut", BeEmpty())))
		file := struct {
			Queues []struct{ Name, VHost string }
		}{}
		Expect(json.Unmarshal([]byte(exported.Out), &file)).To(Succeed())
		Expect(file.Queues).To(ContainElement(SatisfyAll(HaveField("Name", "dead"), HaveField("VHost", w.VHost.Name))))

		elsewhere := broker.NewVHost(GinkgoTB())
		elsewhere.Import(json.RawMessage(strings.ReplaceAll(exported.Out, w.VHost.Name, elsewhere.Name)))
		Expect(Desired(broker, w.All()).Differences(Observed(elsewhere))).To(BeEmpty())
	})

	It("imports definitions as ConsumerQueues that are in sync", func() {
		w := newWorld()
		state, supported := conformance.Named(GinkgoTB(), "seed-004-pipeline").Expect(version())
		Expect(supported).To(BeTrue())
		for _, exchange := range state.Exchanges {
			w.VHost.DeclareExchange(exchange.Name, exchange.Type, nil)
		}
		for _, queue := range state.Queues {
			w.VHost.DeclareQueue(queue.Name, queue.Arguments)
		}
		for _, binding := range state.Bindings {
			w.VHost.Bind(binding.Source, binding.Destination, binding.RoutingKey, binding.Arguments)
		}
		imported := w.answer(string(w.VHost.Export()), "import", "-", "--broker-version="+broker.Version)
		Expect(imported).To(SatisfyAll(HaveField("Code", 0),
			HaveField("ErrOut", ContainSubstring(": 7\n")), HaveField("ErrOut", Not(ContainSubstring("Differs")))))
		kube.Kubectl("apply", "--server-side", "-f", file("queues.yaml", imported.Out))
		w.AllReady(7)
		w.ExpectExactly()
	})

	It("imports every vector as ConsumerQueues that the API server accepts", Extended, func() {
		w := newWorld()
		var imports []string
		for _, vector := range conformance.Load(GinkgoTB()) {
			state, supported := vector.Expect(version())
			if !supported {
				continue
			}
			content, err := json.Marshal(map[string]any{
				"exchanges": state.Exchanges, "queues": durable(state.Queues), "bindings": state.Bindings,
			})
			Expect(err).NotTo(HaveOccurred())
			imported := w.answer(string(content), "import", "-", "--broker-version="+broker.Version)
			Expect(imported).To(HaveField("Code", 0), vector.Name)
			imports = append(imports, imported.Out)
		}
		taken := kube.Kubectl("apply", "--dry-run=server", "-f", file("queues.yaml", strings.Join(imports, "---\n")))
		Expect(strings.Count(taken, "created (server dry run)")).To(BeNumerically(">", len(imports)))
	})

	It("prints its version and the manager's", func() {
		w := newWorld()
		Expect(w.warren("version")).To(SatisfyAll(
			HaveField("Code", 0), HaveField("Out", HavePrefix("kubectl warren devel, revision ")),
			HaveField("ErrOut", ContainSubstring("no Deployment has the labels"))))
		kube.Kubectl("create", "deployment", "manager", "--namespace="+w.Namespace, "--image=ghcr.io/warren-mq/warren:v1.2.3")
		kube.Kubectl("label", "deployment", "manager", "--namespace="+w.Namespace, "app.kubernetes.io/name=warren",
			"app.kubernetes.io/component=manager")
		Expect(w.warren("version").Out).To(ContainSubstring("manager v1.2.3 (Deployment " + w.Namespace + "/manager"))
		Expect(w.warren("version", "--as=nobody")).To(SatisfyAll(
			HaveField("Code", 0), HaveField("ErrOut", ContainSubstring("The version of the manager is unknown"))))
		kube.Kubectl("delete", "deployment", "manager", "--namespace="+w.Namespace)
	})
})

// durable returns queues in the format of definitions.json.
func durable(queues []conformance.Queue) []map[string]any {
	list := make([]map[string]any, len(queues))
	for i, queue := range queues {
		list[i] = map[string]any{"name": queue.Name, "durable": true, "arguments": queue.Arguments}
	}
	return list
}
