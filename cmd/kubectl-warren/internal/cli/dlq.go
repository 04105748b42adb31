package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// newDLQ returns the group of commands for dead letters.
func newDLQ(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Browse, move and delete dead letters",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDLQList(c, streams), newDLQShow(c, streams), newPeek(c, streams), newDLQExport(c, streams))
	cmd.AddCommand(newRedrive(c, streams), newPurge(c, streams), newJobs(c, streams), newFollow(c, streams))
	cmd.AddCommand(newRate(c, streams), newSuspend(c, streams), newResume(c, streams), newCancel(c, streams))
	return cmd
}

func newFollow(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:               "follow NAME",
		Short:             "Watch a Redrive or Purge",
		Long:              "Print the progress of a Redrive or Purge until it ends. Ctrl-C stops only this command.\n\n" + exitCodes,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, err := c.open()
			if err != nil {
				return err
			}
			named, err := kube.job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = follow(cmd.Context(), kube, streams, named)
			return err
		},
	}
}

// completeJob completes the first argument with the names of Redrives and Purges that have not ended.
func (c *cluster) completeJob(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kube, err := c.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	listed, err := kube.jobs(cmd.Context(), false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, each := range listed {
		if !each.Ended() {
			names = append(names, argumentOf(each))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
