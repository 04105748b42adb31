// Command probe prints how the first process of its container's PID namespace is confined. As an ephemeral container it inspects
// the manager.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run() error {
	status, err := os.ReadFile("/proc/1/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp":
			fmt.Println(name, strings.Join(strings.Fields(value), " "))
		}
	}
	// /proc/1/root is the manager's root directory with its mount options.
	err = os.WriteFile("/proc/1/root/written", nil, 0o600)
	fmt.Println("ReadOnlyRoot", errors.Is(err, syscall.EROFS))
	return nil
}
