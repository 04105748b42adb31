package gitops

import (
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/warren-mq/warren/test/testenv"
)

// toolScript is hack/tool.sh, which has built a program when this returns: the first time on a machine that takes minutes.
func toolScript(name string) string {
	GinkgoHelper()
	script, err := filepath.Abs(filepath.Join(Checkout, "hack", "tool.sh"))
	Expect(err).NotTo(HaveOccurred())
	output, err := exec.CommandContext(ctx(), script, name, "--help").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "hack/tool.sh %s: %s", name, output)
	return script
}
