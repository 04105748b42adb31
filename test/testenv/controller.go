package testenv

import (
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// RunController runs one controller of kube-controller-manager until the spec ends. envtest has none.
func (s *APIServer) RunController(name string) {
	GinkgoHelper()
	provide := exec.CommandContext(ctx(), filepath.Join(Checkout, "hack", "kubernetes.sh"), "node")
	provide.Stderr = GinkgoWriter
	binary, err := provide.Output()
	Expect(err).NotTo(HaveOccurred())
	RunAside(exec.Command(strings.TrimSpace(string(binary)), "kube-controller-manager", "--kubeconfig", s.KubeConfig,
		"--controllers="+name, "--leader-elect=false", "--secure-port=0"))
}
