package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("The rules", func() {
	It("fire when testdata/rules_test.yaml says so, and not before: promtool", func() {
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

	It("say what is wrong, and where to read what to do", func() {
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

func promtool(args ...string) {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx(), filepath.Join(programs, "promtool"), args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "promtool %v: %s", args, output)
}
