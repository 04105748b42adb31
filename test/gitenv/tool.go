package gitenv

import (
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/warren-mq/warren/test/testenv"
)

// ToolScript returns hack/tool.sh for a program that it has built. The first build on a machine takes minutes.
func ToolScript(name string) string {
	GinkgoHelper()
	script, err := filepath.Abs(filepath.Join(Checkout, "hack", "tool.sh"))
	Expect(err).NotTo(HaveOccurred())
	output, err := exec.CommandContext(ctx(), script, name, "--help").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "hack/tool.sh %s: %s", name, output)
	return script
}
