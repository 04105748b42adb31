package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/deadline"
)

// BuildManager builds the manager as the image has it, and returns the path of the binary. Call it once for a suite.
func BuildManager() string {
	GinkgoHelper()
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
type Manager struct {
	Command *exec.Cmd
	// Ended is closed when the process has ended.
	Ended chan struct{}

	err error // how the process ended; to be read after Ended
}

// StartManager runs the manager for some namespaces until the test ends.
func (s *APIServer) StartManager(binary string, namespaces []string, flags ...string) *Manager {
	GinkgoHelper()
	command := exec.Command(binary, append([]string{
		"--watch-namespaces", strings.Join(namespaces, ","), "--health-probe-bind-address", "0", "--metrics-bind-address", "0",
	}, flags...)...)
	// `make test` sets GOGC; the manager is to take the memory that it takes in a cluster.
	command.Env = append(os.Environ(), "KUBECONFIG="+s.KubeConfig, "GOGC=")
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	m := Run(command)
	DeferCleanup(m.Stop)
	return m
}

// Run starts a manager by its command. The caller ends it.
func Run(command *exec.Cmd) *Manager {
	GinkgoHelper()
	m := &Manager{Command: command, Ended: make(chan struct{})}
	Expect(command.Start()).To(Succeed())
	go func() {
		defer close(m.Ended)
		m.err = command.Wait()
	}()
	return m
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
	if !m.HasEnded() {
		Expect(m.Command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(m.Ended).WithTimeout(deadline.For(20 * time.Second)).Should(BeClosed())
		Expect(m.err).NotTo(HaveOccurred(), "the manager stops in good order")
	}
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
	Expect(m.HasEnded()).To(BeFalse(), func() string { return fmt.Sprintf("the manager ended by itself: %v", m.err) })
}

// HasEnded says whether the process has ended.
func (m *Manager) HasEnded() bool {
	select {
	case <-m.Ended:
		return true
	default:
		return false
	}
}
