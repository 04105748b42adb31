package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/testenv/process"
)

// BuildManager returns the path of the manager's binary, as the image has it. hack/with-parts.sh builds one for all suites of
// a run and names it in WARREN_TEST_MANAGER; otherwise BuildManager builds one. Call it once for a suite.
func BuildManager() string {
	GinkgoHelper()
	if built := os.Getenv("WARREN_TEST_MANAGER"); built != "" {
		return built
	}
	binary := filepath.Join(GinkgoT().TempDir(), "manager")
	command := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "./cmd")
	command.Dir = Checkout
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "build the manager: %s", output)
	return binary
}

// BuildPlugin builds kubectl-warren, and returns the folder that the binary is in: with the folder in PATH, kubectl finds the plugin.
func BuildPlugin() string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	binary := filepath.Join(folder, "kubectl-warren")
	command := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "./cmd/kubectl-warren")
	command.Dir = Checkout
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "build kubectl-warren: %s", output)
	return folder
}

// Manager is a process of the real manager.
type Manager struct{ *process.Process }

// StartManager runs the manager for some namespaces until the test ends.
func (s *APIServer) StartManager(binary string, namespaces []string, flags ...string) *Manager {
	GinkgoHelper()
	command := process.Manager(binary, s.KubeConfig, append([]string{
		"--watch-namespaces", strings.Join(namespaces, ","), "--metrics-bind-address", "0",
	}, flags...)...)
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	m := Run(command)
	DeferCleanup(m.Stop)
	return m
}

// Run starts a manager by its command. The caller ends it.
func Run(command *exec.Cmd) *Manager {
	GinkgoHelper()
	started, err := process.Start(command)
	Expect(err).NotTo(HaveOccurred())
	return &Manager{started}
}

// RunAside runs a program until the spec or the container ends, and writes to Ginkgo's output.
func RunAside(command *exec.Cmd) {
	GinkgoHelper()
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	DeferCleanup(Run(command).Kill)
}

// Stop asks the manager to end, as the kubelet does, and wants that to happen in good order. It does nothing for a manager
// that was stopped or killed before.
func (m *Manager) Stop() {
	GinkgoHelper()
	Expect(m.Process.Stop()).To(Succeed(), "the manager stops in good order")
}

// Kill ends the manager without giving it a chance to tidy up.
func (m *Manager) Kill() {
	GinkgoHelper()
	m.ExpectRuns()
	Expect(m.Command.Process.Kill()).To(Succeed())
	Eventually(m.Ended).Should(BeClosed())
}

// ExpectRuns fails if the manager has ended.
func (m *Manager) ExpectRuns() {
	GinkgoHelper()
	Expect(m.HasEnded()).To(BeFalse(), func() string { return fmt.Sprintf("the manager ended by itself: %v", m.Err()) })
}

// FreeAddress returns an address of this machine at which no process listens.
func FreeAddress() string {
	GinkgoHelper()
	address, err := process.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	return address
}
