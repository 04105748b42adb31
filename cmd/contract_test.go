package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/consumer/contract"
)

const twoQueues = `
apiVersion: messaging.warren.dev/v1alpha1
kind: ConsumerQueue
metadata: {name: orders}
spec: {}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: messaging.warren.dev/v1alpha1
kind: ConsumerQueue
metadata: {name: invoices}
spec: {retry: {strategy: Requeue}}
`

func TestPrintContract(t *testing.T) {
	t.Parallel()
	file := write(t, "queues.yaml", twoQueues)
	out := &bytes.Buffer{}
	if err := printContract([]string{"-f", file, "--name", "orders", "--rabbitmq", "4.3"}, out); err != nil {
		t.Fatal(err)
	}
	got, err := contract.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(contract.Default("orders"), got); difference != "" {
		t.Errorf("contract (-want +got):\n%s", difference)
	}
}

func TestCheckContract(t *testing.T) {
	t.Parallel()
	queues := write(t, "queues.yaml", twoQueues)
	document, err := json.Marshal(contract.Default("orders"))
	if err != nil {
		t.Fatal(err)
	}
	fresh := write(t, "contract.json", string(document))
	stale := write(t, "contract.json", strings.Replace(string(document), `"maxAttempts":4`, `"maxAttempts":6`, 1))
	arguments := []string{"-f", queues, "--name", "orders", "--rabbitmq", "4.3", "--check"}
	if err := printContract(append(arguments, fresh), &bytes.Buffer{}); err != nil {
		t.Errorf("a fresh contract: %v", err)
	}
	if err := printContract(append(arguments, stale), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "is not what") {
		t.Errorf("a stale contract: %v", err)
	}
}

func TestPrintContractSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	file := write(t, "queues.yaml", twoQueues)
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"no file":           {nil, "-f and --rabbitmq are needed"},
		"no version":        {[]string{"-f", file}, "-f and --rabbitmq are needed"},
		"an odd version":    {[]string{"-f", file, "--rabbitmq", "new"}, "--rabbitmq"},
		"a missing file":    {[]string{"-f", file + "x", "--rabbitmq", "4.3"}, "no such file"},
		"which of two":      {[]string{"-f", file, "--rabbitmq", "4.3"}, "has 2 ConsumerQueues: say which by --name"},
		"another name":      {[]string{"-f", file, "--rabbitmq", "4.3", "--name", "x"}, `has no ConsumerQueue "x"`},
		"a broker too old":  {[]string{"-f", file, "--rabbitmq", "3.9", "--name", "orders"}, "needs RabbitMQ 3.10"},
		"an unknown field":  {[]string{"-f", write(t, "odd.yaml", strings.Replace(twoQueues, "spec: {}", "spec: {retries: 3}", 1)), "--rabbitmq", "4.3"}, `unknown field "retries"`},
		"an empty document": {[]string{"-f", write(t, "empty.yaml", ""), "--rabbitmq", "4.3"}, "has no ConsumerQueue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := printContract(test.arguments, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
