package cli

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

func newDLQList(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead-letter queues, with the number of messages that Warren counted last",
		Long: "List the dead-letter queues of the namespace, with the number of messages that Warren counted last. ConsumerQueues tell " +
			"that, so the right to list ConsumerQueues is all that it takes.",
		Args: usage(cobra.NoArgs),
	}
	output := addOutput(cmd, formatTable, formatJSON, formatYAML, formatName)
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "list the dead-letter queues of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.validate(); err != nil {
			return err
		}
		return listDeadLetterQueues(cmd.Context(), c, streams, output, *all)
	}
	return cmd
}

func listDeadLetterQueues(ctx context.Context, c *cluster, streams genericiooptions.IOStreams, output *output, all bool) error {
	kube, err := c.open()
	if err != nil {
		return err
	}
	queues, err := kube.consumerQueues(ctx, all)
	if err != nil {
		return err
	}
	list := listing.List(queues.Items)
	if printed, err := output.printed(streams.Out, list); printed || err != nil {
		return err
	}
	if output.format == formatName {
		for _, queue := range list.Items {
			printf(streams.Out, "consumerqueue.messaging.warren.dev/%s\n", queue.Name)
		}
		return nil
	}
	if len(list.Items) == 0 {
		printf(streams.ErrOut, "There is no ConsumerQueue with a dead-letter queue %s.\n", kube.where(all))
		return nil
	}
	return printDeadLetterQueues(streams.Out, list.Items, time.Now(), all, isColoured(streams.Out))
}

func printDeadLetterQueues(out io.Writer, queues []v1alpha1.DeadLetterQueue, now time.Time, namespaces, coloured bool) error {
	head := []string{"NAME", "QUEUE", "MESSAGES", "COUNTED"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	rows := newTable(coloured, head...)
	for _, queue := range queues {
		counted := "-"
		if queue.AsOf != nil {
			counted = duration.HumanDuration(now.Sub(queue.AsOf.Time))
		}
		row := []cell{text(queue.Name), text(queue.Queue), deadCell(queue.Messages), text(counted)}
		if namespaces {
			row = append([]cell{text(queue.Namespace)}, row...)
		}
		rows.add(row...)
	}
	return rows.print(out)
}

func decimal(count int64) string { return strconv.FormatInt(count, 10) }
