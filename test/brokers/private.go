package brokers

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Private is a broker of one test's own, which the test may stop.
type Private struct {
	// Broker is the same after each Start: it keeps its ports.
	Broker Broker

	tb     testing.TB
	folder string
}

// NewPrivate starts a further broker of the newest version, which is removed when the test ends. Its cluster has another
// name than that of any other broker.
func NewPrivate(tb testing.TB) *Private {
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

func (p *Private) script(action string, more ...string) string {
	p.tb.Helper()
	arguments := append([]string{"private", action, p.folder}, more...)
	command := exec.Command(filepath.Join(checkout(p.tb), "hack", "brokers.sh"), arguments...)
	var trouble bytes.Buffer
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		p.tb.Fatalf("hack/brokers.sh private %s: %v\n%s", action, err, trouble.String())
	}
	return strings.TrimSpace(string(output))
}

// checkout is the folder that the scripts are under: tests run in their package's.
func checkout(tb testing.TB) string {
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
