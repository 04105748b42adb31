package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// cluster is an API server of our own.
type cluster struct {
	environment *envtest.Environment
	kubeconfig  string
}

func startCluster(kubeconfig string) (*cluster, error) {
	environment := &envtest.Environment{}
	if _, err := environment.Start(); err != nil {
		return nil, fmt.Errorf("start the API server (run this by \"make run\"): %w", err)
	}
	started := &cluster{environment, kubeconfig}
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		started.stop()
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return started, nil
}

func (c *cluster) stop() {
	if err := c.environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
	}
}

// kubectl prints and runs a command, and returns what it wrote.
func (c *cluster) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// operator is the manager, as it runs in a cluster too.
type operator struct {
	process *os.Process
	log     string
	ended   chan struct{} // closed once err is set
	err     error
}

func startOperator(folder, kubeconfig string, flags ...string) (*operator, error) {
	path := filepath.Join(folder, "manager.log")
	log, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write the operator's log: %w", err)
	}
	arguments := append([]string{"--kubeconfig", kubeconfig, "--health-probe-bind-address=0"}, flags...)
	command := exec.Command(filepath.Join(folder, "manager"), arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	started := &operator{process: command.Process, log: relative(path), ended: make(chan struct{})}
	go func() {
		started.err = command.Wait()
		_ = log.Close()
		close(started.ended)
	}()
	return started, nil
}

func (o *operator) stop() {
	_ = o.process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-o.ended:
	case <-time.After(20 * time.Second):
		_ = o.process.Kill()
	}
}
