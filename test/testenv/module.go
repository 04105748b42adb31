package testenv

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ModuleFolder returns the source directory of a Go module in the version that hack/PINNED_IN/go.mod requires. Go downloads it
// once per machine.
func ModuleFolder(pinnedIn, path string) string {
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
