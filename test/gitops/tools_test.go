package gitops

import (
	"encoding/json"
	"os"
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

// moduleFolder has the source of a Go module, in the version that a module in hack pins.
func moduleFolder(pinnedIn, path string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), "go", "mod", "download", "-json", path)
	command.Dir = filepath.Join(Checkout, "hack", pinnedIn)
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "go mod download %s: %s", path, output)
	module := struct{ Dir string }{}
	Expect(json.Unmarshal(output, &module)).To(Succeed())
	return module.Dir
}
