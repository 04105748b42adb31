package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-mq/warren/test/testenv/process"
)

// The environment variables of a program.
const (
	concurrency = 4 // handlers at a time
	prefetch    = 8
	drain       = 3 * time.Second // how long handlers may take after SIGTERM
	heartbeat   = 5               // seconds, in the URI
)

// subject is a process of the program.
type subject struct {
	*process.Process

	output sync.WaitGroup // until all that the process has printed is read
}

// start starts the program. What it prints goes to the trial's log and, if it is a line of the protocol, to the journal.
func (t *trial) start() {
	command := exec.Command(t.settings.command[0], t.settings.command[1:]...)
	command.Env = append(os.Environ(), t.environment()...)
	command.Stderr = t.log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only this command, which ends the program
	reader, writer, err := os.Pipe()
	t.check(err)
	command.Stdout = writer
	started, err := process.Start(command)
	_ = writer.Close() // the process has its own
	t.check(err)
	t.subject = &subject{Process: started}
	t.subject.output.Go(func() {
		t.journal.read(io.TeeReader(reader, t.log))
		_ = reader.Close()
	})
}

// kill ends the program and its children immediately, and reads the rest of their output.
func (t *trial) kill() {
	if t.subject == nil {
		return
	}
	_ = syscall.Kill(-t.subject.Command.Process.Pid, syscall.SIGKILL) // it may have ended
	<-t.subject.Ended
	t.subject.output.Wait()
}

// stop kills a program that has to be alive.
func (t *trial) stop() {
	if t.subject.HasEnded() {
		t.fails("the program ended by itself: %v", t.subject.Err())
	}
	t.kill()
}

// terminate sends SIGTERM to the program, as a kubelet does, and reports whether the program ended soon enough. It kills one that did
// not.
func (t *trial) terminate() bool {
	const margin = 7 * time.Second                        // beyond the time for handlers
	_ = t.subject.Command.Process.Signal(syscall.SIGTERM) // it may have ended
	ended := t.until(drain+margin, t.subject.HasEnded)
	if !ended {
		t.fails("the program did not end within %s of SIGTERM; its handlers had %s", drain+margin, drain)
	}
	t.kill()
	return ended
}

// journal is what the programs of a trial have printed about messages.
type journal struct {
	mu      sync.Mutex
	starts  map[string][]time.Time
	returns map[string]int
	total   int // of returns
}

// read reads lines "start ID" and "done ID". All others are the program's own.
func (j *journal) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // what is not a whole line was not written to its end
		}
		event, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		j.add(event, id)
	}
}

func (j *journal) add(event, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.starts == nil {
		j.starts, j.returns = map[string][]time.Time{}, map[string]int{}
	}
	switch event {
	case "start":
		j.starts[id] = append(j.starts[id], time.Now())
	case "done":
		j.returns[id]++
		j.total++
	}
}

// started returns when handlers began to handle a message.
func (j *journal) started(id string) []time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.starts[id]
}

// begun counts the messages that a handler has seen.
func (j *journal) begun() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.starts)
}

// handled counts how often a message was handled with success.
func (j *journal) handled(id string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.returns[id]
}

// successes counts how often any message was handled with success.
func (j *journal) successes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}
