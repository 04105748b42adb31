package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// newDLQ is the group of commands about dead letters.
func newDLQ(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look into dead-letter queues, and move dead letters back",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDLQList(c, streams), newDLQShow(c, streams), newPeek(c, streams), newDLQExport(c, streams))
	cmd.AddCommand(newRedrive(c, streams), newFollow(c, streams), newCancel(c, streams))
	return cmd
}

func newFollow(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "follow REDRIVE",
		Short: "Print how a Redrive fares until it has ended",
		Long: "Print how a Redrive fares until it has ended. Ctrl-C ends only the printing. Exit code 3 means that the Redrive has " +
			"failed or waits for somebody to mend something, 4 that it was cancelled.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeRedrive,
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, err := c.open()
			if err != nil {
				return err
			}
			_, err = follow(cmd.Context(), kube, streams, args[0])
			return err
		},
	}
}

func newCancel(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:               "cancel REDRIVE",
		Short:             "End a Redrive; what was moved stays moved",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeRedrive,
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, err := c.open()
			if err != nil {
				return err
			}
			return cancelRedrive(cmd.Context(), kube, streams, args[0])
		},
	}
}

func cancelRedrive(ctx context.Context, kube session, streams genericiooptions.IOStreams, name string) error {
	redrive, err := kube.redrive(ctx, name)
	if err != nil {
		return err
	}
	if stageOf(redrive).ended() {
		return fmt.Errorf("the Redrive %q has ended already: %s", name, readyText(redrive))
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))
	if err := kube.Patch(ctx, redrive, patch); err != nil {
		return err
	}
	ended, err := kube.await(ctx, name, func(now *v1alpha1.Redrive) bool { return stageOf(now).ended() }, streams.ErrOut)
	if err != nil {
		return err
	}
	if ended == nil {
		printf(streams.ErrOut, "Redrive %q ends by itself.\n", name)
		return nil
	}
	printf(streams.Out, "%s\n", readyText(ended))
	return nil
}

// redrive reads a Redrive of the namespace.
func (s session) redrive(ctx context.Context, name string) (*v1alpha1.Redrive, error) {
	redrive := &v1alpha1.Redrive{}
	return redrive, s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, redrive)
}

// pollInterval is how often a Redrive is read while a command waits for it. Warren writes its status every 5 s at most.
const pollInterval = 500 * time.Millisecond

// completeRedrive completes the first argument of a command with the names of Redrives that have not ended.
func (c *cluster) completeRedrive(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kube, err := c.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list := &v1alpha1.RedriveList{}
	if err := kube.List(cmd.Context(), list, kube.inNamespace(false)...); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range list.Items {
		if !stageOf(&list.Items[i]).ended() {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
