package hostile

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The faults of amqp091-go that docs/upstream describes are still there. When this fails, a newer version has cured them: then
// the page can go. What Warren does about them stays, for brokers are not trusted.
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
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			output, err := exec.CommandContext(t.Context(), program, mode).CombinedOutput()
			if err == nil || !strings.Contains(string(output), says) {
				t.Errorf("ended with %v, without %q: %s", err, says, output)
			}
		})
	}
}
