package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

func newRate(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "rate NAME (N | unlimited)",
		Short: "Change how many messages per second a Redrive or Purge moves or deletes",
		Example: "  kubectl warren dlq rate orders-wl7xb 20\n" +
			"  kubectl warren dlq rate purge/orders-t5jzc unlimited",
		Args:              usage(cobra.ExactArgs(2)),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			rate, err := numberOrUnlimited("rate", args[1])
			if err != nil {
				return err
			}
			return c.changeJob(cmd.Context(), args[0], map[string]any{"rate": rate}, "has rate "+rate.String())
		},
	}
}

func newSuspend(c *cluster) *cobra.Command {
	return newSuspension(c, "suspend", "Suspend a Redrive or a Purge; `dlq resume` resumes it", true, "is suspended")
}

func newResume(c *cluster) *cobra.Command {
	return newSuspension(c, "resume", "Resume a Redrive or a Purge that is suspended", false, "is resumed")
}

func newSuspension(c *cluster, name, short string, suspend bool, done string) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short,
		Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeJob(cmd.Context(), args[0], map[string]any{"suspend": suspend}, done)
		},
	}
}

func newCancel(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel NAME",
		Short: "Cancel a Redrive or a Purge; moved messages stay moved, and deleted messages are gone",
		Long: "End a Redrive or a Purge. Messages that were moved stay moved, and messages that were deleted are gone. " +
			"Where a Redrive and a Purge have the same name, write redrive/NAME or purge/NAME.",
		Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error { return c.cancelJob(cmd.Context(), args[0]) },
	}
}

// changeJob changes fields of the spec of a job that has not ended, and prints its name followed by done, such as
// "is suspended".
func (c *cluster) changeJob(ctx context.Context, argument string, fields map[string]any, done string) error {
	_, changed, err := c.patchJob(ctx, argument, fields)
	if err != nil {
		return err
	}
	printf(c.Out, "%s %s %s.\n", changed.Noun(), changed.Name, done)
	return nil
}

// cancelJob cancels a job, and waits until it has ended.
func (c *cluster) cancelJob(ctx context.Context, argument string) error {
	kube, cancelled, err := c.patchJob(ctx, argument, map[string]any{"cancel": true})
	if err != nil {
		return err
	}
	ended, err := kube.await(ctx, cancelled, jobs.Job.Ended, c.ErrOut)
	if err != nil {
		return err
	}
	if ended == nil {
		printf(c.ErrOut, "%s %q is cancelled, but has not ended yet. This command no longer waits for it.\n",
			cancelled.Noun(), cancelled.Name)
		return &exit{code: exitStopped}
	}
	printf(c.Out, "%s\n", readyText(*ended))
	return nil
}

// alreadyEnded is the error of a command that changes a job.
func alreadyEnded(j jobs.Job) error {
	return fmt.Errorf("the %s %q has ended already: %s. Create another one to continue", j.Noun(), j.Name, readyText(j))
}

// patchJob changes fields of the spec of the job that an argument names. A job that has ended is an error.
func (c *cluster) patchJob(ctx context.Context, argument string, fields map[string]any) (session, jobs.Job, error) {
	kube, err := c.open()
	if err != nil {
		return kube, jobs.Job{}, err
	}
	changed, err := kube.patchJob(ctx, argument, fields)
	return kube, changed, err
}

func (s session) patchJob(ctx context.Context, argument string, fields map[string]any) (jobs.Job, error) {
	named, err := s.job(ctx, argument)
	if err != nil {
		return jobs.Job{}, err
	}
	if named.Ended() {
		return jobs.Job{}, alreadyEnded(named)
	}
	patch, err := json.Marshal(map[string]any{"spec": fields})
	if err != nil {
		return jobs.Job{}, err
	}
	return named, s.Patch(ctx, named.Object, client.RawPatch(types.MergePatchType, patch))
}
