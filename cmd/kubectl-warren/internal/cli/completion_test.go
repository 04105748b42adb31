package cli

import (
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		"bash": "__start_kubectl-warren", "zsh": "#compdef kubectl-warren", "fish": "complete -c kubectl-warren",
		"powershell": "Register-ArgumentCompleter -CommandName 'kubectl-warren'",
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", "completion", shell)
			if got.code != 0 || !strings.Contains(got.out, want) {
				t.Errorf("exit code %d, no %q in %d bytes", got.code, want, len(got.out))
			}
		})
	}
}

// The completions of __complete, which all scripts call.
func TestCompletions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"commands": {[]string{"d"}, "diff\tShow the differences between a ConsumerQueue and the broker\ndlq\tBrowse, move and delete dead letters\n:4\n"},
		"formats":  {[]string{"plan", "-o", ""}, "table\nwide\njson\nyaml\n:4\n"},
		"reasons":  {[]string{"dlq", "redrive", "orders", "--died-reason", ""}, "Rejected\nExpired\nMaxLength\nDeliveryLimit\nParked\n:4\n"},
		"contexts": {[]string{"tree", "--context", ""}, "nowhere\n:4\n"},
		"places":   {[]string{"dlq", "redrive", "orders", "--to", ""}, "main\nretry\noriginal\nconsumerqueue/\n:6\n"},
		"shells":   {[]string{"completion", "p"}, "powershell\n:4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"__complete"}, test.args...)...)
			if got.out != test.want {
				t.Errorf("%q, want %q", got.out, test.want)
			}
		})
	}
}
