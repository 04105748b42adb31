package faults

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/deadline"
)

// manager is a process of the real manager.
type manager struct {
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // how; to be read after ended
}

// startManager runs a manager for the worlds' namespaces alone until the test ends.
func startManager(worlds ...*world) *manager {
	GinkgoHelper()
	namespaces := make([]string, len(worlds))
	for i, w := range worlds {
		namespaces[i] = w.namespace
	}
	return startManagerWith(namespaces)
}

// startManagerWith runs a manager for namespaces, with further flags.
func startManagerWith(namespaces []string, args ...string) *manager {
	GinkgoHelper()
	args = append([]string{
		"--watch-namespaces", strings.Join(namespaces, ","), "--health-probe-bind-address", "0", "--metrics-bind-address", "0",
	}, args...)
	m := &manager{command: exec.Command(managerBinary, args...), ended: make(chan struct{})}
	m.command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GOGC=") // of `make test`; the memory is to be that of the real one
	m.command.Stdout, m.command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(m.command.Start()).To(Succeed())
	go func() {
		defer close(m.ended)
		m.err = m.command.Wait()
	}()
	DeferCleanup(m.stop)
	return m
}

// stop asks the manager to end, and wants that to happen in good order.
func (m *manager) stop() {
	GinkgoHelper()
	if m.hasEnded() {
		return
	}
	Expect(m.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
	Eventually(m.ended).WithTimeout(deadline.For(20 * time.Second)).Should(BeClosed())
	Expect(m.err).NotTo(HaveOccurred(), "the manager stops in good order")
}

// kill ends the manager without giving it a chance to tidy up.
func (m *manager) kill() {
	GinkgoHelper()
	Expect(m.hasEnded()).To(BeFalse(), "the manager ended by itself: %v", m.err)
	Expect(m.command.Process.Kill()).To(Succeed())
	Eventually(m.ended).Should(BeClosed())
}

func (m *manager) hasEnded() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}
