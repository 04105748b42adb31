package incluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const gettingStarted = "docs/getting-started.md"

// The test follows the page in a fresh clone, from starting a cluster to stopping it. Every command block runs word for word, in one
// shell, and must print the output on the page.
func TestGettingStarted(t *testing.T) {
	clone := freshClone(t)
	blocks := commandBlocks(t, filepath.Join(clone, gettingStarted))
	if output, err := inClone(t.Context(), clone, "hack/cluster.sh", "status").CombinedOutput(); err == nil {
		t.Fatalf("the page starts a cluster and ends it, so none may run: hack/cluster.sh down\n%s", output)
	}
	t.Cleanup(func() { _ = inClone(context.Background(), clone, "hack/cluster.sh", "down").Run() }) // needed only if a block failed

	outputs, err := runBlocks(t, clone, blocks)
	for i, output := range outputs {
		if missing := blocks[i].missing(output); missing != "" && (err == nil || i < len(outputs)-1) {
			t.Errorf("%s:%d prints no line %q after the lines before:\n%s", gettingStarted, blocks[i].line, missing, output)
		}
	}
	if err != nil {
		last := len(outputs) - 1
		t.Fatalf("%s:%d: %v\n%s", gettingStarted, blocks[last].line, err, outputs[last])
	}
}

// freshClone returns a clone of this commit without build results.
func freshClone(t *testing.T) string {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "warren")
	if output, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", checkout, clone).CombinedOutput(); err != nil {
		t.Fatalf("clone %s: %v\n%s", checkout, err, output)
	}
	return clone
}

// inClone returns a command without the environment variables of `make e2e-cluster`.
func inClone(ctx context.Context, clone, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = clone
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return regexp.MustCompile(`^(KUBECONFIG|GOFLAGS|MAKE\w*|WARREN_TEST_\w*)=`).MatchString(variable)
	})
	return command
}

// commandBlock is a block of commands on the page with the output that the page shows.
type commandBlock struct {
	line     int
	commands string
	output   []string
}

// commandBlocks returns the code blocks of the page: commands, each followed by their output.
func commandBlocks(t *testing.T, page string) []commandBlock {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []commandBlock
	fence := ""
	for i, line := range strings.Split(string(content), "\n") {
		switch {
		case fence != "" && line == "```":
			fence = ""
		case fence == "sh":
			blocks[len(blocks)-1].commands += line + "\n"
		case fence == "text":
			last := &blocks[len(blocks)-1]
			last.output = append(last.output, line)
		case line == "```sh":
			fence = "sh"
			blocks = append(blocks, commandBlock{line: i + 2})
		case line == "```text" && len(blocks) > 0 && blocks[len(blocks)-1].output == nil:
			fence = "text"
		case strings.HasPrefix(line, "```"):
			t.Fatalf("%s:%d: want a block of commands (sh), followed by one of output (text)", page, i+1)
		}
	}
	if len(blocks) < 10 {
		t.Fatalf("%s has only %d blocks of commands", page, len(blocks))
	}
	return blocks
}

// runBlocks runs the blocks in one shell until one fails, or until a minute before the test would time out, and returns the outputs.
func runBlocks(t *testing.T, clone string, blocks []commandBlock) ([]string, error) {
	t.Helper()
	const separator = "--- the next block of commands"
	script := "set -eo pipefail\n"
	for _, block := range blocks {
		script += fmt.Sprintf("echo '%s'\n%s", separator, block.commands)
	}
	// The output goes to a file, because background processes would keep a pipe open.
	path := filepath.Join(t.TempDir(), "output")
	output, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		limited, cancel := context.WithDeadline(ctx, deadline.Add(-time.Minute)) // leaves time to stop the cluster
		defer cancel()
		ctx = limited
	}
	command := inClone(ctx, clone, "bash", "-c", script)
	command.Stdout, command.Stderr = output, output
	failed := command.Run()
	if err := output.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	outputs := strings.Split(string(content), separator+"\n")
	if len(outputs) < 2 {
		t.Fatalf("no block has run: %v\n%s", failed, content)
	}
	return outputs[1:], failed
}

// missing returns the first line of the page's output that is not in the real output, in the same order.
func (b commandBlock) missing(output string) string {
	lines := strings.Split(output, "\n")
	for _, expected := range b.output {
		found := slices.IndexFunc(lines, func(line string) bool {
			return linePattern(expected).MatchString(strings.Join(strings.Fields(line), " "))
		})
		if found < 0 {
			return expected
		}
		lines = lines[found+1:]
	}
	return ""
}

var age = regexp.MustCompile(`^\d+[smh]$`)

// linePattern matches a line of output with any width of columns and any age of resources; … is any text.
func linePattern(expected string) *regexp.Regexp {
	fields := strings.Fields(expected)
	for i, field := range fields {
		if age.MatchString(field) {
			fields[i] = `[0-9smh]+`
		} else {
			fields[i] = strings.ReplaceAll(regexp.QuoteMeta(field), "…", ".*")
		}
	}
	return regexp.MustCompile("^" + strings.Join(fields, " ") + "$")
}
