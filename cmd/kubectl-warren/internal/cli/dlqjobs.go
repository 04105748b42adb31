package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

func newJobs(c *cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs [NAME]",
		Short: "List Redrives and Purges with their progress and requester",
		Long: "List the Redrives and Purges of the namespace, or those of one ConsumerQueue, the newest first. `dlq follow`, `rate`, " +
			"`suspend`, `resume` and `cancel` take the names.",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	output := addOutput(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "list the Redrives and Purges of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *all && len(args) > 0 {
			return errNameAndAll
		}
		return listJobs(cmd.Context(), c, output, args, *all)
	}
	return cmd
}

func listJobs(ctx context.Context, c *cluster, output *output, consumerQueue []string, all bool) error {
	kube, err := c.open()
	if err != nil {
		return err
	}
	listed, err := kube.jobs(ctx, all)
	if err != nil {
		return err
	}
	of := ""
	if len(consumerQueue) > 0 {
		of = fmt.Sprintf("of ConsumerQueue %q ", consumerQueue[0])
		listed = slices.DeleteFunc(listed, func(j jobs.Job) bool { return j.ConsumerQueue != consumerQueue[0] })
	}
	slices.SortStableFunc(listed, func(a, b jobs.Job) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(argumentOf(a), argumentOf(b)))
	})
	if output.format == formatName {
		for _, each := range listed {
			printf(c.Out, "%s\n", resourceNameOf(each.Object))
		}
		return nil
	}
	if printed, err := output.printed(c.Out, jobList(listed)); printed || err != nil {
		return err
	}
	if len(listed) == 0 {
		printf(c.ErrOut, "There is no Redrive and no Purge %s%s.\n", of, kube.where(all))
		return nil
	}
	return printJobs(c.Out, listed, time.Now(), tableLayout{
		namespaces: all, wide: output.format == formatWide, head: true, coloured: isColoured(c.Out),
	})
}

// jobList returns Redrives and Purges as kubectl prints lists of several kinds.
func jobList(listed []jobs.Job) any {
	objects := make([]client.Object, len(listed))
	for i, each := range listed {
		objects[i] = typed(each.Object, each.Noun())
	}
	return struct {
		metav1.TypeMeta `json:",inline"`
		Items           []client.Object `json:"items"`
	}{metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, objects}
}

var outcomeColour = map[jobs.Outcome]colour{
	jobs.Completed: green, jobs.Incomplete: yellow, jobs.Failed: red, jobs.Stalled: red,
}

func printJobs(out io.Writer, listed []jobs.Job, now time.Time, layout tableLayout) error {
	rows := layout.newTable([]string{"NAME", "CONSUMERQUEUE", "STATE", "PROGRESS", "AGE", "BY"}, "MESSAGE")
	for _, each := range listed {
		progress := "-"
		if each.Begun {
			progress = each.Counts(decimal)
		}
		rows.add(layout.row(each.Namespace, []cell{
			cellOf(argumentOf(each)), cellOf(each.ConsumerQueue),
			{cmp.Or(each.Reason, "Pending"), outcomeColour[each.Outcome]},
			cellOf(progress),
			cellOf(age(now, &metav1.Time{Time: each.Created})), cellOf(cmp.Or(each.RequestedBy, "-")),
		}, cellOf(printable.Text(each.Message)))...)
	}
	return rows.print(out)
}
