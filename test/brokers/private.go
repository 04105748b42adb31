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

// Private is a broker for one test, which may stop it.
type Private struct {
	// Broker stays valid after Start, because the broker keeps its ports.
	Broker Broker

	tb     TB
	folder string
}

// NewPrivate starts a broker of the newest version and removes it when the test ends. The name of its cluster is unique.
func NewPrivate(tb TB) *Private {
	tb.Helper()
	return NewPrivateOf(tb, "newest")
}

// NewPrivateOf is NewPrivate for a version (4.3, 4.0, 3.10).
func NewPrivateOf(tb TB, version string) *Private {
	tb.Helper()
	p := &Private{tb: tb, folder: tb.TempDir()}
	tb.Cleanup(func() { p.script("remove") })
	p.Broker = parse(tb, p.script("start", version), remedy, nil)[0]
	return p
}

// Start starts the broker with its data, and waits until it responds.
func (p *Private) Start() {
	p.tb.Helper()
	p.script("start")
}

// Stop kills the broker, like a power failure.
func (p *Private) Stop() {
	p.tb.Helper()
	p.script("stop")
}

// NameCluster renames the broker's cluster.
func (p *Private) NameCluster(name string) {
	p.tb.Helper()
	p.Broker.call(p.tb, http.MethodPut, map[string]string{"name": name}, "cluster-name")
}

// Eval evaluates an Erlang expression on the broker.
func (p *Private) Eval(expression string) string {
	p.tb.Helper()
	return p.script("eval", expression)
}

// SetAlarm sets an alarm about the disk: the broker reads nothing from a connection that publishes.
func (p *Private) SetAlarm() {
	p.tb.Helper()
	p.Eval("rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []}).")
}

// ClearAlarm ends SetAlarm.
func (p *Private) ClearAlarm() {
	p.tb.Helper()
	p.Eval("rabbit_alarm:clear_alarm({resource_limit, disk, node()}).")
}

// PID returns the ID of the broker's root process.
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

// script runs hack/brokers.sh. Ctrl-C does not reach the script, because that could leave a broker running.
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

// checkout returns the root of the repository. Tests run in the directory of their package.
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
