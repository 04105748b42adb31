package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/testenv/process"
)

// BuildManager returns the path of the manager's binary. hack/with-parts.sh builds one for all suites of a run and names it in
// WARREN_TEST_MANAGER; otherwise BuildManager builds one. Call it once per suite.
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

// BuildPlugin builds kubectl-warren and returns the directory of the binary. With that directory in PATH, kubectl finds the
// plugin.
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

// Manager is a process of the manager.
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

// Run starts a manager with this command. The caller must stop it.
func Run(command *exec.Cmd) *Manager {
	GinkgoHelper()
	started, err := process.Start(command)
	Expect(err).NotTo(HaveOccurred())
	return &Manager{started}
}

// RunAside runs a program until the spec or container ends. Its output goes to Ginkgo's writer.
func RunAside(command *exec.Cmd) {
	GinkgoHelper()
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	DeferCleanup(Run(command).Kill)
}

// Stop sends SIGTERM, as the kubelet does, and fails the test unless the manager exits cleanly. It does nothing if the manager
// has already been stopped or killed.
func (m *Manager) Stop() {
	GinkgoHelper()
	Expect(m.Process.Stop()).To(Succeed(), "the manager stops cleanly")
}

// Kill kills the manager without a clean shutdown.
func (m *Manager) Kill() {
	GinkgoHelper()
	m.ExpectRuns()
	Expect(m.Command.Process.Kill()).To(Succeed())
	Eventually(m.Ended).Should(BeClosed())
}

// Pause stops the manager with SIGSTOP. The signal takes effect later, so Pause waits until every thread has stopped.
func (m *Manager) Pause() {
	GinkgoHelper()
	running := m.Command.Process
	Expect(running.Signal(syscall.SIGSTOP)).To(Succeed())
	var status syscall.WaitStatus
	Eventually(func() (bool, error) {
		_, err := syscall.Wait4(running.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		return status.Stopped(), err
	}).Should(BeTrue())
}

// Resume continues a paused manager.
func (m *Manager) Resume() {
	GinkgoHelper()
	Expect(m.Command.Process.Signal(syscall.SIGCONT)).To(Succeed())
}

// ExpectRuns fails if the manager has ended.
func (m *Manager) ExpectRuns() {
	GinkgoHelper()
	Expect(m.HasEnded()).To(BeFalse(), func() string { return fmt.Sprintf("the manager ended by itself: %v", m.Err()) })
}

// FreeAddress returns a local address at which no process listens.
func FreeAddress() string {
	GinkgoHelper()
	address, err := process.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	return address
}
