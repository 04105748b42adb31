package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
)

func newDiff(c *cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff NAME",
		Short: "Show the differences between a ConsumerQueue and the broker",
		Long: "Show the differences between a ConsumerQueue and the broker by object and argument, from its status. " +
			"Exit code 2 means that there are differences.",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	output := addOutput(cmd, formatTable, formatWide, formatJSON, formatYAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return showDiff(cmd.Context(), c, output, args[0])
	}
	return cmd
}

// difference is the JSON and YAML form of diff.
type difference struct {
	Namespace     string            `json:"namespace"`
	ConsumerQueue string            `json:"consumerQueue"`
	Changes       []v1alpha1.Change `json:"changes"`
	// Omitted is the number of further changes that the status leaves out.
	Omitted  int32  `json:"omitted,omitempty"`
	PlanHash string `json:"planHash,omitempty"`
}

func showDiff(ctx context.Context, c *cluster, output *output, name string) error {
	_, cq, err := c.openQueue(ctx, name)
	if err != nil {
		return err
	}
	if err := checkCompared(cq); err != nil {
		return err
	}
	found := difference{
		Namespace: cq.Namespace, ConsumerQueue: cq.Name, PlanHash: cq.Status.PlanHash,
		Changes: append([]v1alpha1.Change{}, cq.Status.Changes...), Omitted: cq.Status.ChangesOmitted,
	}
	printed, err := output.printed(c.Out, found)
	if !printed && err == nil {
		err = printDiff(c.Out, cq, output.format == formatWide, isColoured(c.Out))
	}
	if err == nil && len(found.Changes) > 0 {
		return &exit{code: exitDiffers}
	}
	return err
}

// checkCompared returns an error if the status has no comparison, or none of the current spec.
func checkCompared(cq *v1alpha1.ConsumerQueue) error {
	ready := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case len(cq.Status.Topology) == 0 && ready != nil:
		return fmt.Errorf("ConsumerQueue %q has not been compared with the broker: Ready is %s (%s): %s",
			cq.Name, ready.Status, ready.Reason, ready.Message)
	case len(cq.Status.Topology) == 0:
		return fmt.Errorf("ConsumerQueue %q has not been compared with the broker: is Warren running?", cq.Name)
	case cq.Status.ObservedGeneration != cq.Generation:
		return fmt.Errorf("ConsumerQueue %q has changed since Warren compared it with the broker: try again in a moment, or "+
			"see `kubectl warren status %s`", cq.Name, cq.Name)
	}
	return nil
}

func printDiff(out io.Writer, cq *v1alpha1.ConsumerQueue, wide, coloured bool) error {
	if len(cq.Status.Changes) == 0 {
		printf(out, "ConsumerQueue %s and the broker are in sync.\n", cq.Name)
		return nil
	}
	head := []string{"KIND", "NAME", "DIFFERS", "DESIRED", "OBSERVED", "EFFECT"}
	if wide {
		head = append(head, "MESSAGE")
	}
	rows := newTable(coloured, head...)
	for _, change := range cq.Status.Changes {
		row := []cell{
			cellOf(string(change.Kind)), cellOf(changeName(change)), cellOf(differs(change)),
			cellOf(valueText(change, change.Desired)), cellOf(valueText(change, change.Observed)),
			{string(change.Effect), effectColour[change.Effect]},
		}
		if wide {
			row = append(row, cellOf(change.Message))
		}
		rows.add(row...)
	}
	if err := rows.print(out); err != nil {
		return err
	}
	if cq.Status.ChangesOmitted > 0 {
		printf(out, "\nThe status leaves out further changes: %d.\n", cq.Status.ChangesOmitted)
	}
	return nil
}

func changeName(change v1alpha1.Change) string {
	if change.Kind == v1alpha1.KindBinding {
		return fmt.Sprintf("%s -> %s %q", change.Source, change.Destination, change.RoutingKey)
	}
	return change.Name
}

// valueText returns one side of a difference; empty if a whole object differs.
func valueText(change v1alpha1.Change, value string) string {
	if change.Path == "" {
		return value
	}
	return cmp.Or(value, notSet)
}

// differs names the part of an object that differs.
func differs(change v1alpha1.Change) string {
	switch {
	case change.Path != "":
		return change.Path
	case change.Effect == v1alpha1.EffectUnbind || change.Effect == v1alpha1.EffectDelete:
		return "unexpected"
	}
	return "missing"
}

var effectColour = map[v1alpha1.Effect]colour{
	v1alpha1.EffectDeclare: green, v1alpha1.EffectBind: green, v1alpha1.EffectUnbind: yellow, v1alpha1.EffectDelete: yellow,
	v1alpha1.EffectRecreate: red, v1alpha1.EffectNone: yellow,
}
