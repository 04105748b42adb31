package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/tree"
)

func newTree(c *cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tree NAME",
		Short: "Show the topology of a ConsumerQueue as a tree, with the state of each object",
		Long: "Show the topology of a ConsumerQueue as a tree, with the state of each object from the status. The tree has the source " +
			"exchanges, the main queue, and below it the delay tiers, the dead-letter exchange and the dead-letter queue.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	output := addOutput(cmd, formatTable, formatJSON, formatYAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return showTree(cmd.Context(), c, output, args[0])
	}
	return cmd
}

func showTree(ctx context.Context, c *cluster, output *output, name string) error {
	_, cq, err := c.openQueue(ctx, name)
	if err != nil {
		return err
	}
	if printed, err := output.printed(c.Out, tree.Of(cq)); printed || err != nil {
		return err
	}
	return printTree(c.Out, cq, isColoured(c.Out))
}

func printTree(out io.Writer, cq *v1alpha1.ConsumerQueue, coloured bool) error {
	rows := newTable(coloured, "OBJECT", "ROLE", "STATE")
	for i, line := range tree.Of(cq).Lines() {
		state := cell{string(line.State), stateColour[line.State]}
		if i == 0 {
			state = readyCell(cq)
		}
		rows.add(cellOf(line.Branch+line.Kind+" "+line.Name), cellOf(string(line.Role)), state)
	}
	if err := rows.print(out); err != nil {
		return err
	}
	if cq.Status.TopologyOmitted > 0 {
		printf(out, "\nThe status leaves out further objects: %d.\n", cq.Status.TopologyOmitted)
	}
	return nil
}

var stateColour = map[v1alpha1.ObjectState]colour{
	v1alpha1.StateInSync: green, v1alpha1.StateMissing: red, v1alpha1.StateRecreationRequired: red,
	v1alpha1.StateForeign: faint, v1alpha1.StateOrphaned: yellow, v1alpha1.StateUnknown: yellow,
}

// readyCell shows the condition Ready and its reason.
func readyCell(cq *v1alpha1.ConsumerQueue) cell {
	ready := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return cell{"Ready Unknown", yellow}
	}
	return cell{"Ready " + string(ready.Status) + ", " + ready.Reason, conditionColour[ready.Status]}
}
