package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// golden compares a text with testdata/NAME.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./internal/cli -update writes it", err)
	}
	if difference := cmp.Diff(string(want), got); difference != "" {
		t.Errorf("%s (-want +got):\n%s", path, difference)
	}
}

// result is the output of a command, and its exit code.
type result struct {
	out, errOut string
	code        int
}

// run runs kubectl warren without a cluster: a command that contacts one fails.
func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	streams.In = strings.NewReader(stdin)
	nowhere := filepath.Join("testdata", "nowhere.kubeconfig")
	code := Run(t.Context(), slices.Concat(args[:1], []string{"--kubeconfig=" + nowhere}, args[1:]), streams)
	return result{out.String(), errOut.String(), code}
}

// load reads a ConsumerQueue with its status.
func load(t *testing.T, name string) *v1alpha1.ConsumerQueue {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cq := &v1alpha1.ConsumerQueue{}
	if err := yaml.UnmarshalStrict(content, cq); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return cq
}

// printed returns the output of a function.
func printed(t *testing.T, write func(*bytes.Buffer) error) string {
	t.Helper()
	out := &bytes.Buffer{}
	if err := write(out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func baseOf(name string) string { return filepath.Base(name) }
