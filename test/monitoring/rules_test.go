package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("The rules", func() {
	It("fire exactly when testdata/rules_test.yaml expects them, by promtool", func() {
		folder := GinkgoT().TempDir()
		promtool("check", "rules", write(folder, "rules.yaml", rules()))
		tests, err := os.ReadFile(filepath.Join("testdata", "rules_test.yaml"))
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(folder, "rules_test.yaml")
		Expect(os.WriteFile(path, tests, 0o600)).To(Succeed())
		promtool("test", "rules", path)
		for _, rule := range rules().Groups[0].Rules {
			Expect(string(tests)).To(ContainSubstring("alertname: "+rule.Alert), "each alert has a test")
		}
	})

	It("fire for each advisory about possible loss of messages", func() {
		harmless := []v1alpha1.AdvisoryCode{
			v1alpha1.AdvisoryDeliveryLimitBelowAttempts, // the message goes to the dead-letter queue
			v1alpha1.AdvisoryFenced,                     // WarrenFenceStanding
			v1alpha1.AdvisoryDeadLettersDelayed,         // they return after the delay
			v1alpha1.AdvisoryUnsupportedByNewerBroker,   // nothing happens before the upgrade
			v1alpha1.AdvisoryOrphaned, v1alpha1.AdvisoryRedriveImpossible, v1alpha1.AdvisoryReturnRouteFansOut,
			v1alpha1.AdvisorySentinelLeft, v1alpha1.AdvisorySharedDeadLetterQueue, v1alpha1.AdvisorySharedVHost,
			v1alpha1.AdvisorySharedWithoutConsent,
		}
		for _, rule := range rules().Groups[0].Rules {
			if rule.Alert == "WarrenMessagesCanBeLost" {
				alerting := regexp.MustCompile(`code=~"([^"]*)"`).FindStringSubmatch(rule.Expr.String())[1]
				var known []string
				for _, code := range harmless {
					known = append(known, string(code))
				}
				Expect(append(known, strings.Split(alerting, "|")...)).To(ConsistOf(advisoryCodes()))
			}
		}
	})

	It("describe the problem and link to the solution", func() {
		for _, rule := range rules().Groups[0].Rules {
			Expect(rule.Alert).To(HavePrefix("Warren"))
			Expect(rule.Labels).To(HaveKeyWithValue("severity", BeElementOf("info", "warning", "critical")), rule.Alert)
			Expect(rule.Annotations).To(SatisfyAll(HaveKey("summary"), HaveKey("description"), HaveKey("runbook_url")), rule.Alert)
			page, ours := strings.CutPrefix(rule.Annotations["runbook_url"], "https://github.com/warren-mq/warren/blob/main/")
			Expect(ours).To(BeTrue(), rule.Alert)
			text, err := os.ReadFile(filepath.Join(Checkout, filepath.FromSlash(page)))
			Expect(err).NotTo(HaveOccurred(), rule.Alert)
			Expect(string(text)).To(SatisfyAll(HavePrefix("# %s\n", rule.Alert), ContainSubstring("\n## What it means\n"),
				ContainSubstring("\n## What to do\n")), page)
		}
	})
})

// advisoryCodes returns the codes that the CRD allows.
func advisoryCodes() []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(Checkout, "config", "crd", "bases", "messaging.warren.dev_consumerqueues.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	Expect(yaml.Unmarshal(text, &crd)).To(Succeed())
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	var codes []string
	for _, value := range status.Properties["advisories"].Items.Schema.Properties["code"].Enum {
		var code string
		Expect(yaml.Unmarshal(value.Raw, &code)).To(Succeed())
		codes = append(codes, code)
	}
	return codes
}

func promtool(args ...string) {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx(), filepath.Join(programs, "promtool"), args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "promtool %v: %s", args, output)
}
