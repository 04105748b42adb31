package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// newDLQ is the group of commands about dead letters.
func newDLQ(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look into dead-letter queues, and move or delete dead letters",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDLQList(c, streams), newDLQShow(c, streams), newPeek(c, streams), newDLQExport(c, streams))
	cmd.AddCommand(newRedrive(c, streams), newPurge(c, streams), newFollow(c, streams), newCancel(c, streams))
	return cmd
}

func newFollow(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:               "follow (REDRIVE | purge/PURGE)",
		Short:             "Print the progress of a Redrive or a Purge until it has ended",
		Long:              "Print the progress of a Redrive or a Purge until it has ended. Ctrl-C ends only the printing.\n\n" + exitCodes,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, named, err := c.openJob(args[0])
			if err != nil {
				return err
			}
			_, err = follow(cmd.Context(), kube, streams, named)
			return err
		},
	}
}

func newCancel(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:               "cancel (REDRIVE | purge/PURGE)",
		Short:             "End a Redrive or a Purge; what was moved stays moved, and what was deleted is gone",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, named, err := c.openJob(args[0])
			if err != nil {
				return err
			}
			return cancelJob(cmd.Context(), kube, streams, named)
		},
	}
}

// openJob opens a session for the job that an argument names.
func (c *cluster) openJob(argument string) (session, job, error) {
	kube, err := c.open()
	if err != nil {
		return kube, nil, err
	}
	named, err := jobNamed(argument, kube.namespace)
	return kube, named, err
}

func cancelJob(ctx context.Context, kube session, streams genericiooptions.IOStreams, named job) error {
	now, err := kube.read(ctx, named)
	if err != nil {
		return err
	}
	name := now.object().GetName()
	if outcomeOf(now).Ended() {
		return fmt.Errorf("the %s %q has ended already: %s", now.kind(), name, readyText(now))
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))
	if err := kube.Patch(ctx, now.object(), patch); err != nil {
		return err
	}
	ended, err := kube.await(ctx, named, func(now job) bool { return outcomeOf(now).Ended() }, streams.ErrOut)
	if err != nil {
		return err
	}
	if ended == nil {
		printf(streams.ErrOut, "%s %q ends by itself.\n", named.kind(), name)
		return nil
	}
	printf(streams.Out, "%s\n", readyText(ended))
	return nil
}

// completeJob completes the first argument of a command with the names of Redrives and Purges that have not ended.
func (c *cluster) completeJob(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kube, err := c.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	redrives, purges := &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}
	for _, list := range []client.ObjectList{redrives, purges} {
		if err := kube.List(cmd.Context(), list, kube.inNamespace(false)...); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
	}
	var names []string
	for _, listed := range jobsOf(redrives.Items, purges.Items) {
		if !outcomeOf(listed).Ended() {
			names = append(names, listed.argument())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func jobsOf(redrives []v1alpha1.Redrive, purges []v1alpha1.Purge) []job {
	jobs := make([]job, 0, len(redrives)+len(purges))
	for i := range redrives {
		jobs = append(jobs, redriveJob{&redrives[i]})
	}
	for i := range purges {
		jobs = append(jobs, purgeJob{&purges[i]})
	}
	return jobs
}
