package brokers

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Private is a broker of one test's own, which the test may stop.
type Private struct {
	// Broker is the same after each Start: it keeps its ports.
	Broker Broker

	tb     TB
	folder string
}

// NewPrivate starts a further broker of the newest version, which is removed when the test ends. Its cluster has another
// name than that of any other broker.
func NewPrivate(tb TB) *Private {
	tb.Helper()
	p := &Private{tb: tb, folder: tb.TempDir()}
	tb.Cleanup(func() { p.script("remove") })
	p.Broker = parse(tb, p.script("start"), remedy, nil)[0]
	return p
}

// Start starts it again, with all that it had when it was stopped, and returns when it answers.
func (p *Private) Start() {
	p.tb.Helper()
	p.script("start")
}

// Stop ends it as a power cut would.
func (p *Private) Stop() {
	p.tb.Helper()
	p.script("stop")
}

// NameCluster gives its cluster another name.
func (p *Private) NameCluster(name string) {
	p.tb.Helper()
	p.Broker.call(p.tb, http.MethodPut, map[string]string{"name": name}, "cluster-name")
}

// Eval has it evaluate an Erlang expression.
func (p *Private) Eval(expression string) string {
	p.tb.Helper()
	return p.script("eval", expression)
}

// PID returns the id of the broker's process that is the parent of all others.
func (p *Private) PID() int {
	p.tb.Helper()
	pid, err := strconv.Atoi(p.script("pid"))
	if err != nil {
		p.tb.Fatal(err)
	}
	return pid
}

func (p *Private) script(action string, more ...string) string {
	p.tb.Helper()
	return script(p.tb, append([]string{"private", action, p.folder}, more...)...)
}

// script runs hack/brokers.sh. Ctrl-C does not reach the script: a broker could be left behind.
func script(tb TB, args ...string) string {
	tb.Helper()
	command := exec.Command(filepath.Join(checkout(tb), "hack", "brokers.sh"), args...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var trouble bytes.Buffer
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		tb.Fatalf("hack/brokers.sh %s: %v\n%s", strings.Join(args, " "), err, trouble.String())
	}
	return strings.TrimSpace(string(output))
}

// checkout is the folder that the scripts are under: tests run in their package's.
func checkout(tb TB) string {
	tb.Helper()
	folder, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		up := filepath.Dir(folder)
		if up == folder {
			tb.Fatal("no go.mod above the test's folder")
		}
		folder = up
	}
}
