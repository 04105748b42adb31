package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/internal/topology/plan"
)

func newApprove(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	var hash string
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve the recreation of a queue that recreatePolicy Migrate plans",
		Long: "Approve the plan that `kubectl warren plan NAME` shows. The approval is an annotation with the hash of the plan: " +
			"if the plan changes, it has to be approved again. An abort of the same recreation is taken back.",
		Example: "  kubectl warren plan orders\n" +
			"  kubectl warren approve orders",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.approve(cmd.Context(), streams.Out, args[0], hash)
		},
	}
	cmd.Flags().StringVar(&hash, "plan", "", "approve only a plan with this hash, as `kubectl warren plan` printed it")
	return cmd
}

func newAbort(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "abort NAME",
		Short: "Abort the recreation of a queue, so that the old queue stays",
		Long: "Abort the recreation of a queue that is planned or under way. Messages and bindings come back to the old queue. " +
			"Once the old queue may have been deleted, the recreation can only be finished.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.abort(cmd.Context(), streams.Out, args[0]) },
	}
}

func (c *cluster) approve(ctx context.Context, out io.Writer, name, hash string) error {
	kube, cq, err := c.withQueue(ctx, name)
	if err != nil {
		return err
	}
	said, err := approval(cq, hash)
	if err != nil {
		return err
	}
	before := cq.DeepCopy()
	annotate(cq, v1alpha1.ApproveRecreationAnnotation, cq.Status.PlanHash)
	delete(cq.Annotations, v1alpha1.AbortRecreationAnnotation)
	if err := kube.Patch(ctx, cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	printf(out, "%s\n", said)
	return nil
}

func (c *cluster) abort(ctx context.Context, out io.Writer, name string) error {
	kube, cq, err := c.withQueue(ctx, name)
	if err != nil {
		return err
	}
	said, err := abortion(cq)
	if err != nil {
		return err
	}
	before := cq.DeepCopy()
	annotate(cq, v1alpha1.AbortRecreationAnnotation, cq.Status.Recreation.ID)
	if err := kube.Patch(ctx, cq, client.MergeFrom(before)); err != nil {
		return err
	}
	printf(out, "%s\n", said)
	return nil
}

func (c *cluster) withQueue(ctx context.Context, name string) (session, *v1alpha1.ConsumerQueue, error) {
	kube, err := c.open()
	if err != nil {
		return kube, nil, err
	}
	cq, err := kube.consumerQueue(ctx, name)
	return kube, cq, err
}

func annotate(cq *v1alpha1.ConsumerQueue, key, value string) {
	if cq.Annotations == nil {
		cq.Annotations = map[string]string{}
	}
	cq.Annotations[key] = value
}

// approval is what an approval answers, or why there is nothing to approve.
func approval(cq *v1alpha1.ConsumerQueue, hash string) (string, error) {
	named := fmt.Sprintf("ConsumerQueue %s/%s", cq.Namespace, cq.Name)
	switch {
	case cq.Spec.RecreatePolicy == "" || cq.Spec.RecreatePolicy == v1alpha1.RecreatePolicyManual:
		return "", fmt.Errorf("%s: Warren recreates no queue with spec.recreatePolicy Manual: set WhenEmpty or Migrate", named)
	case cq.Status.Recreation.IsUnderWay():
		return "", fmt.Errorf("%s: the recreation is under way: see kubectl warren status %s", named, cq.Name)
	case cq.Status.ObservedGeneration != cq.Generation:
		return "", fmt.Errorf("%s: Warren has not seen the newest spec yet: run the command again in a few seconds", named)
	case cq.Status.PlanHash == "":
		return "", fmt.Errorf("%s: no queue has to be recreated", named)
	case hash != "" && hash != cq.Status.PlanHash:
		return "", fmt.Errorf("%s: the plan has changed since you saw it: run kubectl warren plan %s", named, cq.Name)
	}
	return fmt.Sprintf("%s: recreation approved, plan %s. It begins when the consumers are gone: kubectl -n %s scale deployment/NAME "+
		"--replicas=0", named, cq.Status.PlanHash, cq.Namespace), nil
}

// abortion is what an abort answers, or why nothing can be aborted.
func abortion(cq *v1alpha1.ConsumerQueue) (string, error) {
	named, recreation := fmt.Sprintf("ConsumerQueue %s/%s", cq.Namespace, cq.Name), cq.Status.Recreation
	switch {
	case recreation == nil || recreation.ID == "":
		return "", fmt.Errorf("%s: no recreation is planned or under way", named)
	case recreation.DeleteSent:
		return "", fmt.Errorf("%s: the queue has been swapped: recreation %s can only be finished. To change it again, edit the spec",
			named, recreation.ID)
	case !recreation.IsUnderWay():
		return fmt.Sprintf("%s: recreation %s does not begin; the old queue stays.", named, recreation.ID), nil
	}
	return fmt.Sprintf("%s: recreation %s goes back; the old queue stays.", named, recreation.ID), nil
}

// recreationLine is the recreation of a ConsumerQueue in one line; empty if there is none.
func recreationLine(recreation *v1alpha1.RecreationStatus) string {
	switch {
	case recreation == nil || recreation.Phase == "" && recreation.LastResult == nil:
		return ""
	case recreation.Phase == "":
		return fmt.Sprintf("queue %q: %s at %s", recreation.LastResult.Queue, recreation.LastResult.Result,
			recreation.LastResult.Time.UTC().Format("2006-01-02T15:04:05Z"))
	case recreation.Phase == v1alpha1.RecreationWaiting:
		return fmt.Sprintf("Waiting, queue %q, recreation %s", recreation.Queue, recreation.ID)
	}
	consumers := "Consumers must wait"
	if recreation.ConsumersMayStart {
		consumers = "Consumers may start"
	}
	return fmt.Sprintf("%s, %s; %d messages left, %d came past the bindings. %s", recreation.Phase, plan.DescribeWork(*recreation),
		recreation.Remaining, recreation.PastBindings, consumers)
}

// printRecreation prints what the next recreation means.
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
		rows.add(text("  "+consequence.For), text(consequence.Text))
	}
	return rows.print(out)
}
