package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/recreation"
)

func newApprove(c *cluster) *cobra.Command {
	var hash string
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve the planned recreation of a queue",
		Long: "Approve the plan that `kubectl warren plan NAME` shows. The approval is an annotation with the hash of the plan: " +
			"if the plan changes, approve it again. An approval also cancels an abort of the same recreation. " +
			"The command prints whether the consumers pause by themselves or must be stopped.",
		Example: "  kubectl warren plan orders\n" +
			"  kubectl warren approve orders",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.approve(cmd.Context(), args[0], hash) },
	}
	cmd.Flags().StringVar(&hash, "plan", "", "approve only the plan with this `HASH`, which kubectl warren plan prints")
	return cmd
}

func newAbort(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "abort NAME",
		Short: "Abort the recreation of a queue, so that the old queue stays",
		Long: "Abort the recreation of a queue that is planned or under way. Warren moves messages and bindings back to the old queue. " +
			"Once Warren may have deleted the old queue, the recreation can no longer be aborted.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.abort(cmd.Context(), args[0]) },
	}
}

func (c *cluster) approve(ctx context.Context, name, hash string) error {
	kube, cq, err := c.openQueue(ctx, name)
	if err != nil {
		return err
	}
	approve := func(cq *v1alpha1.ConsumerQueue) (string, error) { return recreation.Approve(cq, hash) }
	if err := kube.annotate(ctx, c.Out, cq, approve); err != nil {
		return err
	}
	kube.sayAfterApproval(ctx, c.Out, name)
	return nil
}

// answerTimeout is how long approve waits for Warren, which counts the consumers first.
const answerTimeout = 15 * time.Second

// sayAfterApproval waits until the status shows what Warren does with an approved recreation, and prints it.
func (s session) sayAfterApproval(ctx context.Context, out io.Writer, name string) {
	answer := ""
	err := wait.PollUntilContextTimeout(ctx, pollInterval, answerTimeout, true, func(ctx context.Context) (bool, error) {
		cq, err := s.consumerQueue(ctx, name)
		if err == nil {
			answer = recreation.AfterApproval(cq)
		}
		return answer != "", err
	})
	switch {
	case answer != "":
	case err != nil && !wait.Interrupted(err):
		answer = fmt.Sprintf("The approval is written, but ConsumerQueue %q cannot be read: %v", name, err)
	default:
		answer = fmt.Sprintf("Warren has not begun yet. To see whether the consumers must be stopped: "+
			"kubectl warren status %s --namespace %s", name, s.namespace)
	}
	printf(out, "%s\n", answer)
}

func (c *cluster) abort(ctx context.Context, name string) error {
	kube, cq, err := c.openQueue(ctx, name)
	if err != nil {
		return err
	}
	return kube.annotate(ctx, c.Out, cq, func(cq *v1alpha1.ConsumerQueue) (string, error) { return recreation.Abort(cq, "") })
}

// annotate changes the annotations of a ConsumerQueue, and prints the sentence of the change. Each annotation names its plan or its
// recreation, so it does no harm if the ConsumerQueue was changed meanwhile.
func (s session) annotate(
	ctx context.Context, out io.Writer, cq *v1alpha1.ConsumerQueue, change func(*v1alpha1.ConsumerQueue) (string, error),
) error {
	before := cq.DeepCopy()
	said, err := change(cq)
	if err != nil {
		return err
	}
	if err := s.Patch(ctx, cq, client.MergeFrom(before)); err != nil {
		return err
	}
	printf(out, "%s\n", said)
	return nil
}

// printRecreation prints the consequences of the next recreation.
func printRecreation(out io.Writer, next *preview.Recreation) error {
	if next == nil {
		return nil
	}
	kind := string(next.Policy)
	if next.NeedsApproval {
		kind += ", approval required"
	}
	if next.PlanHash != "" {
		kind += ", plan " + next.PlanHash
	}
	printf(out, "\nRecreation of queue %q: %s\n", next.Queue, kind)
	rows := newTable(false)
	for _, consequence := range next.Consequences {
		rows.add(cellOf("  "+consequence.For), cellOf(consequence.Text))
	}
	return rows.print(out)
}
