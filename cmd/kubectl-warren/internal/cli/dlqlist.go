package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

type listCommand struct {
	*cluster
	genericiooptions.IOStreams

	output        *output
	all, nonEmpty bool
}

func newDLQList(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	l := &listCommand{cluster: c, IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "ls [NAME...]",
		Short: "List dead-letter queues, with the number of messages that Warren counted last",
		Long: "List the dead-letter queues of the namespace, the fullest first, with the number of messages that Warren counted last. " +
			"ConsumerQueues tell that, so the right to list ConsumerQueues is all that it takes.",
		ValidArgsFunction: c.completeConsumerQueues,
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	l.output = addOutput(cmd, formatTable, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "list the dead-letter queues of all namespaces")
	cmd.Flags().BoolVar(&l.nonEmpty, "non-empty", false, "list only queues with messages")
	return cmd
}

func (l *listCommand) run(ctx context.Context, names []string) error {
	if err := l.output.validate(); err != nil {
		return err
	}
	if l.all && len(names) > 0 {
		return usageError("a NAME and --all-namespaces do not go together")
	}
	kube, err := l.open()
	if err != nil {
		return err
	}
	queues, err := kube.consumerQueues(ctx, l.all)
	if err != nil {
		return err
	}
	list := listing.List(queues.Items)
	if err := checkNames(list.Items, names); err != nil {
		return err
	}
	list.Items = fullest(list.Items, names, l.nonEmpty)
	if printed, err := l.output.printed(l.Out, list); printed || err != nil {
		return err
	}
	if l.output.format == formatName {
		for _, queue := range list.Items {
			printf(l.Out, "consumerqueue.messaging.warren.dev/%s\n", queue.Name)
		}
		return nil
	}
	if len(list.Items) == 0 {
		what := "a dead-letter queue"
		if l.nonEmpty {
			what = "dead letters"
		}
		printf(l.ErrOut, "There is no ConsumerQueue with %s %s.\n", what, kube.where(l.all))
		return nil
	}
	return printDeadLetterQueues(l.Out, list.Items, time.Now(), l.all, isColoured(l.Out))
}

// checkNames refuses the name of a ConsumerQueue that does not exist or has no dead-letter queue.
func checkNames(queues []v1alpha1.DeadLetterQueue, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(queues, func(queue v1alpha1.DeadLetterQueue) bool { return queue.Name == name }) {
			return fmt.Errorf("there is no ConsumerQueue %q with a dead-letter queue: `kubectl warren dlq ls` lists those of the namespace",
				name)
		}
	}
	return nil
}

// fullest returns the queues of these names, or all if there are none, with the most messages first.
func fullest(queues []v1alpha1.DeadLetterQueue, names []string, nonEmpty bool) []v1alpha1.DeadLetterQueue {
	queues = slices.DeleteFunc(queues, func(queue v1alpha1.DeadLetterQueue) bool {
		return len(names) > 0 && !slices.Contains(names, queue.Name) || nonEmpty && number(queue.Messages) == 0
	})
	slices.SortFunc(queues, func(a, b v1alpha1.DeadLetterQueue) int {
		return cmp.Or(cmp.Compare(number(b.Messages), number(a.Messages)), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
	return queues
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
