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

// The program receives these values in environment variables.
const (
	concurrency = 4 // handlers at a time
	prefetch    = 8
	drain       = 3 * time.Second // how long handlers may take after SIGTERM
	heartbeat   = 5               // seconds, in the URI
)

// subject is a running program.
type subject struct {
	*process.Process

	output sync.WaitGroup // waits until the whole output was read
	killed sync.Once
}

// start starts the program and waits until it consumes.
func (t *trial) start() {
	before := t.consumed.Load()
	t.launch()
	if !t.until(t.limits.start, func() bool { return t.consumed.Load() > before }) && !t.subject.HasEnded() {
		t.addMistake("the program did not consume within %s of its start", t.limits.start)
	}
}

// launch starts the program. Its output goes to the trial's log, and the lines of the protocol to the journal.
func (t *trial) launch() {
	command := exec.Command(t.settings.command[0], t.settings.command[1:]...)
	command.Env = append(os.Environ(), t.environment()...)
	command.Stderr = t.log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only this command, which stops the program
	reader, writer, err := os.Pipe()
	t.check(err)
	command.Stdout = writer
	started, err := process.Start(command)
	_ = writer.Close() // the process has its own
	t.check(err)
	t.subject = &subject{Process: started}
	t.Cleanup(t.subject.kill)
	t.subject.output.Go(func() {
		t.journal.read(io.TeeReader(reader, t.log))
		_ = reader.Close()
	})
}

// kill kills the program with its children, and reads the rest of their output. Later calls do nothing, because another process may
// have the same ID by then.
func (s *subject) kill() {
	s.killed.Do(func() {
		_ = syscall.Kill(-s.Command.Process.Pid, syscall.SIGKILL) // may have ended
		<-s.Ended
		s.output.Wait()
	})
}

// stop kills the program and adds a mistake if it had already ended.
func (t *trial) stop() {
	if t.subject.HasEnded() {
		t.addMistake("the program ended by itself: %v", t.subject.Err())
	}
	t.subject.kill()
}

// terminate sends SIGTERM to the program, as a kubelet does, and reports whether it ended in time. Otherwise it kills the
// program.
func (t *trial) terminate() bool {
	const margin = 7 * time.Second                        // beyond the time for handlers
	_ = t.subject.Command.Process.Signal(syscall.SIGTERM) // may have ended
	ended := t.until(drain+margin, t.subject.HasEnded)
	if !ended {
		t.addMistake("the program did not exit within %s after SIGTERM, although its handlers had only %s", drain+margin, drain)
	}
	t.subject.kill()
	return ended
}

// journal records what the programs of a trial printed about messages.
type journal struct {
	mu      sync.Mutex
	starts  map[string][]time.Time
	returns map[string]int
	done    map[string]time.Time // when a message was handled successfully for the first time
	total   int                  // sum of returns
}

// read reads lines "start ID" and "done ID", and ignores all others.
func (j *journal) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // an incomplete line was not completely written
		}
		event, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		j.add(event, id)
	}
}

func (j *journal) add(event, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.starts == nil {
		j.starts, j.returns, j.done = map[string][]time.Time{}, map[string]int{}, map[string]time.Time{}
	}
	switch event {
	case "start":
		j.starts[id] = append(j.starts[id], time.Now())
	case "done":
		if j.returns[id] == 0 {
			j.done[id] = time.Now()
		}
		j.returns[id]++
		j.total++
	}
}

// startsOf returns when a message was passed to a handler, once per attempt.
func (j *journal) startsOf(id string) []time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.starts[id]
}

// started returns how many messages were passed to a handler.
func (j *journal) started() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.starts)
}

// handled returns how often a message was handled successfully.
func (j *journal) handled(id string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.returns[id]
}

// doneAt returns when a message was handled successfully for the first time.
func (j *journal) doneAt(id string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done[id]
}

// successes returns how often any message was handled successfully.
func (j *journal) successes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}
