package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Run runs the command that the arguments name, and returns the exit code. A command that could not write its output fails.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	written := &checkedOutput{Writer: streams.Out}
	if !isTerminal(streams.Out) { // commands ask a terminal for its width
		streams.Out = written
	}
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ends, ok := errors.AsType[*exit](err); written.err != nil && (err == nil || ok && ends.err == nil) {
		err = written.err
	}
	return codeOf(err, streams.ErrOut)
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-warren",
		Short: "Inspect ConsumerQueues, and move dead letters back",
		Long: "Inspect ConsumerQueues, preview changes at the broker, browse dead-letter queues, and move dead letters back.\n\n" +
			exitCodes,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl warren"},
		Args:              onlyCommands,
		PersistentPreRunE: checkEmptyFlags,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see %s --help", err, cmd.CommandPath())
	})
	c := newCluster(streams)
	c.flags.AddFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("namespace", c.completeListed(&corev1.NamespaceList{}, false))
	_ = root.RegisterFlagCompletionFunc("context", c.completeContexts)
	root.AddCommand(
		newPlan(c), newDiff(c), newTree(c), newStatus(c), newApprove(c), newAbort(c), newDLQ(c), newContract(c), newExport(c),
		newImport(c), newUI(c), newCheck(c), newReport(c), newVersion(c), newCompletion(streams),
	)
	return root
}
