package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// completeForKubectl is the script kubectl_complete-warren, which kubectl runs to complete `kubectl warren`.
const completeForKubectl = `#!/bin/sh
# Completes "kubectl warren". Put this file on PATH as kubectl_complete-warren, executable.
exec kubectl warren __complete "$@"
`

var completions = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
}

func newCompletion(streams genericiooptions.IOStreams) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:   "completion (--for-kubectl | " + strings.Join(shells, " | ") + ")",
		Short: "Print a shell completion script",
		Long: "Print a script that completes commands, flags and the names of ConsumerQueues, Redrives and Purges. With " +
			"--for-kubectl, print the script with which kubectl completes `kubectl warren`: save it on PATH as " +
			"kubectl_complete-warren. The other scripts complete kubectl-warren if you call it by that name.",
		Example: "  kubectl warren completion --for-kubectl >~/.local/bin/kubectl_complete-warren\n" +
			"  chmod +x ~/.local/bin/kubectl_complete-warren",
		Args:      usage(cobra.MaximumNArgs(1)),
		ValidArgs: shells,
	}
	forKubectl := cmd.Flags().Bool("for-kubectl", false, "print the script kubectl_complete-warren")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *forKubectl == (len(args) > 0):
			return usageError("give a shell or --for-kubectl; see kubectl warren completion --help")
		case *forKubectl:
			printf(streams.Out, "%s", completeForKubectl)
			return nil
		case !slices.Contains(shells, args[0]):
			return usageError("there is no completion for %q: give one of %s", args[0], strings.Join(shells, ", "))
		}
		return completions[args[0]](cmd.Root(), streams.Out)
	}
	return cmd
}
