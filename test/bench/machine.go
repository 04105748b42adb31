package main

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// machine describes the hardware and the versions of the benchmark.
type machine struct {
	date, processor, commit, manager, rabbitMQ, erlang, kubernetes string
	cores                                                          int
	memory                                                         int64 // bytes
	tick                                                           time.Duration
}

// describeMachine leaves unknown fields empty.
func describeMachine(ctx context.Context, w *world) machine {
	m := machine{
		date: time.Now().UTC().Format(time.DateOnly), cores: runtime.NumCPU(), tick: w.given.tick,
		rabbitMQ: w.vhost.Broker.Version, erlang: w.vhost.Broker.Erlang,
		commit: outputOf(ctx, "git", "rev-parse", "--short=12", "HEAD"), manager: outputOf(ctx, w.given.manager, "--version"),
	}
	if outputOf(ctx, "git", "status", "--porcelain", "--untracked-files=no") != "" {
		m.commit += ", with changes"
	}
	if memory, err := machineMemory(); err == nil {
		m.memory = memory
	}
	if machine, err := procfs.NewDefaultFS(); err == nil {
		if cores, err := machine.CPUInfo(); err == nil && len(cores) > 0 {
			m.processor = cores[0].ModelName
		}
	}
	if version, err := w.server.discovery.ServerVersion(); err == nil {
		m.kubernetes = version.GitVersion
	}
	return m
}

// outputOf returns the output of a command, or "" if it fails.
func outputOf(ctx context.Context, name string, arguments ...string) string {
	output, err := exec.CommandContext(ctx, name, arguments...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(output))
}
