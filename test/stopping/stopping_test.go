// Package stopping tests that an interrupted run leaves no process behind.
package stopping

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

const (
	checkout = "../.."
	// limit is how long a run may take to end, see docs/development.md.
	limit = 10 * time.Second
)

// A run has a child in its own session that ignores signals. In `make test-all` it has an API server with etcd and a private RabbitMQ, too.
const (
	stubborn = `{ setsid sh -c 'trap "" INT TERM; sleep 600' & } && touch "$FOLDER/started" && sleep 600`
	rabbitmq = `hack/brokers.sh private start "$TMPDIR/broker" && `
)

func TestSIGTERMEndsEveryProcessOfARun(t *testing.T) {
	t.Parallel()
	before := brokers.Newest(t)
	command := []string{"newest", "--", "bash", "-c", stubborn}
	programs := []string{"sleep"}
	if !testing.Short() {
		command = []string{"newest", "apiserver", "--", "bash", "-c", rabbitmq + stubborn}
		programs = []string{"kube-apiserver", "etcd", "beam.smp", "sleep"}
	}
	r := start(t, "hack/with-parts.sh", command...)
	r.mustRun(t, programs...)
	r.stop(t, syscall.SIGTERM, 128+int(syscall.SIGTERM))
	if after := brokers.Newest(t); after.AMQPURI != before.AMQPURI {
		t.Errorf("the broker that ran before is gone: %s, then %s", before.AMQPURI, after.AMQPURI)
	}
}

// Make does not forward SIGINT. A terminal sends it to the whole process group.
func TestCtrlCEndsEveryProcessOfARun(t *testing.T) {
	t.Parallel()
	r := start(t, "hack/supervise.sh", "sh", "-c", `{ setsid sleep 600 & } && touch "$FOLDER/started" && sleep 600`)
	r.mustRun(t, "sleep")
	r.stop(t, syscall.SIGINT, 128+int(syscall.SIGINT))
}

func TestARunEndsWhatItsCommandLeftBehind(t *testing.T) {
	t.Parallel()
	r := start(t, "hack/supervise.sh", "sh", "-c", `{ setsid sleep 600 & } && touch "$FOLDER/started" && exit 7`)
	r.expectEnd(t, 7)
}

// run is a script with a command that creates the file "started" in $FOLDER.
type run struct {
	command *exec.Cmd
	folder  string
	output  bytes.Buffer
}

func start(t *testing.T, script string, arguments ...string) *run {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the test finds processes in /proc")
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &run{command: exec.Command(filepath.Join(checkout, script), arguments...), folder: folder}
	r.command.Path, _ = filepath.Abs(r.command.Path)
	r.command.Dir = checkout
	// The run is independent of the run of this test. TMPDIR distinguishes their processes.
	r.command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "WARREN_RUN=") || strings.HasPrefix(variable, "WARREN_TEST_KUBECONFIG=")
	}), "TMPDIR="+folder, "FOLDER="+folder)
	r.command.Stdout, r.command.Stderr = &r.output, &r.output
	r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.command.Process.Signal(syscall.SIGTERM) })
	err = wait.PollUntilContextTimeout(t.Context(), deadline.Polling, deadline.For(time.Minute), true, func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(folder, "started"))
		return err == nil, nil
	})
	if err != nil {
		_ = r.command.Process.Signal(syscall.SIGTERM)
		_ = r.command.Wait()
		t.Fatalf("the run did not start:\n%s", &r.output)
	}
	return r
}

// mustRun fails unless the run has processes of these programs.
func (r *run) mustRun(t *testing.T, programs ...string) {
	t.Helper()
	running := r.processes(t)
	for _, program := range programs {
		if !slices.ContainsFunc(running, func(line string) bool { return strings.Contains(line, program) }) {
			t.Errorf("the run has no process %s; it has:\n%s", program, strings.Join(running, "\n"))
		}
	}
}

// stop sends a signal to the process group of the script, as a terminal does, and waits for the end.
func (r *run) stop(t *testing.T, signal syscall.Signal, status int) {
	t.Helper()
	began := time.Now()
	if err := syscall.Kill(-r.command.Process.Pid, signal); err != nil {
		t.Fatal(err)
	}
	r.expectEnd(t, status)
	if took := time.Since(began); took > deadline.For(limit) {
		t.Errorf("the run took %v to end", took)
	}
}

// expectEnd waits for the end of the script, and fails if a process or a temporary file is left.
func (r *run) expectEnd(t *testing.T, status int) {
	t.Helper()
	_ = r.command.Wait() // the exit status is not checked here
	if got := r.command.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d, want %d:\n%s", got, status, &r.output)
	}
	if left := r.processes(t); len(left) > 0 {
		t.Errorf("left running:\n%s", strings.Join(left, "\n"))
	}
	if left, err := filepath.Glob(filepath.Join(r.folder, "warren-*")); err != nil || len(left) > 0 {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
	links, err := filepath.Glob("/dev/shm/warren-*/root") // to the folders of private brokers whose data is there
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if folder, err := os.Readlink(link); err == nil && strings.HasPrefix(folder, r.folder) {
			t.Errorf("left in memory: %s of the broker in %s", filepath.Dir(link), folder)
		}
	}
}

// processes returns the command lines of the run's processes. They inherit FOLDER, unless they run inside a broker's root, which
// is a folder below it.
func (r *run) processes(t *testing.T) []string {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(environments) == 0 {
		t.Fatalf("this test needs /proc: %v", err)
	}
	var found []string
	for _, file := range environments {
		process := filepath.Dir(file)
		environment, _ := os.ReadFile(file) // the process may have ended
		root, _ := os.Readlink(filepath.Join(process, "root"))
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if bytes.Contains(environment, []byte("FOLDER="+r.folder+"\x00")) || strings.HasPrefix(root, r.folder) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
