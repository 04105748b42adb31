package hostile

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// amqp091-go still has the faults that docs/upstream describes. If this test fails, a newer version has fixed them, and the page
// can be deleted. Warren's protection stays, because it does not trust brokers.
func TestFaultsOfTheAMQPLibrary(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "amqp091-go")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-tags=upstream", "-o", program, "../../docs/upstream/amqp091-go").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for mode, says := range map[string]string{
		"undrained": "panic: send on closed channel",
		"drained":   "panic: send on closed channel",
		"confirm":   "CloseDeadline has not returned",
		"nack":      "the refused message 2 is reported as confirmed",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			output, err := exec.CommandContext(t.Context(), program, mode).CombinedOutput()
			if err == nil || !strings.Contains(string(output), says) {
				t.Errorf("exited with %v and without %q: %s", err, says, output)
			}
		})
	}
}
