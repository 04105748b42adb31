package e2e

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// oddText contains characters that JSON must escape, and characters that YAML accepts only escaped.
const oddText = "\x00\x01\x1f\t\"'\\<>&\u007f\u0080\u2028\ufeff\ufffe😀"

var _ = Describe("Bindings that Warren has not declared", func() {
	It("never prevent a status write", func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		w.VHost.DeclareExchange(oddText, "topic", nil)
		w.VHost.DeclareExchange(strings.Repeat("x", 255), "topic", nil)
		w.VHost.Bind("amq.headers", "orders", "long", map[string]any{"k": strings.Repeat("x", 70000)})
		w.VHost.Bind("amq.headers", "orders", "long controls", map[string]any{"k": strings.Repeat("\x01", 20000)})
		w.VHost.Bind("amq.headers", "orders", strings.Repeat("k", 255), map[string]any{strings.Repeat("n", 255): "v"})
		w.VHost.Bind("amq.headers", "orders", strings.Repeat("\x01", 255), map[string]any{"no UTF-8": "\xff\xfe"})
		w.VHost.Bind("amq.headers", "orders", oddText, map[string]any{oddText: oddText})
		w.VHost.Bind(oddText, "orders", oddText, nil)
		w.VHost.Bind(strings.Repeat("x", 255), "orders", "#", nil)

		foreign := func() []v1alpha1.TopologyEntry {
			var found []v1alpha1.TopologyEntry
			for _, entry := range w.Get("orders").Status.Topology {
				if entry.State == v1alpha1.StateForeign {
					found = append(found, entry)
				}
			}
			return found
		}
		Eventually(foreign).Should(SatisfyAll(HaveLen(7),
			ContainElement(SatisfyAll(HaveField("RoutingKey", "long"),
				HaveField("Arguments", MatchRegexp(`^sha256:[0-9a-f]{64} \(70008 bytes\)$`)))),
			ContainElement(HaveField("Source", strings.Repeat("x", 255)))))
		w.request("orders", "now")
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"), HaveField("Status.LastHandledReconcileAt", "now"))
		text, err := json.Marshal(cq.Status)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(text)).To(BeNumerically("<=", 512<<10))
	})
})
