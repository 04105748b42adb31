package cli

import (
	"github.com/spf13/cobra"
)

// newDLQ returns the group of commands for dead letters.
func newDLQ(c *cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Browse, move and delete dead letters",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDLQList(c), newDLQShow(c), newPeek(c), newDLQExport(c))
	cmd.AddCommand(newRedrive(c), newPurge(c), newJobs(c), newFollow(c))
	cmd.AddCommand(newRate(c), newSuspend(c), newResume(c), newCancel(c))
	return cmd
}

func newFollow(c *cluster) *cobra.Command {
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
			_, err = follow(cmd.Context(), kube, c.IOStreams, named)
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
