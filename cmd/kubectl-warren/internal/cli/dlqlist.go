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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

type listCommand struct {
	*cluster

	output               *output
	all, nonEmpty, watch bool
}

func newDLQList(c *cluster) *cobra.Command {
	l := &listCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "ls [NAME...]",
		Short: "List dead-letter queues, with the number of messages in the status",
		Long: "List the dead-letter queues of the namespace, the fullest first. MESSAGES is the count in the status, which Warren " +
			"writes when the order of magnitude changes; COUNTED is its age. " +
			"UNDER WAY is the number of messages that running Redrives and Purges have yet to examine, move or delete. " +
			"The command reads ConsumerQueues, Redrives and Purges: the role view is enough.",
		ValidArgsFunction: c.completeConsumerQueues,
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	l.output = addOutput(cmd, formatTable, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "list the dead-letter queues of all namespaces")
	cmd.Flags().BoolVar(&l.nonEmpty, "non-empty", false, "list only queues with messages")
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "watch for changes after listing")
	return cmd
}

func (l *listCommand) run(ctx context.Context, names []string) error {
	switch {
	case l.all && len(names) > 0:
		return errNameAndAll
	case l.watch && l.output.format != formatTable:
		return usageError("--watch prints a table: remove --output %s", l.output.format)
	}
	kube, err := l.open()
	if err != nil {
		return err
	}
	list, err := l.list(ctx, kube)
	if err != nil {
		return err
	}
	if err := checkNames(list.Items, names); err != nil {
		return err
	}
	if l.watch {
		return l.follow(ctx, kube, names, list.Items)
	}
	list.Items = fullest(list.Items, names, l.nonEmpty)
	if printed, err := l.output.printed(l.Out, list); printed || err != nil {
		return err
	}
	if l.output.format == formatName {
		for _, queue := range list.Items {
			printf(l.Out, "%s\n", queueResource(queue.Name))
		}
		return nil
	}
	if len(list.Items) == 0 {
		what := "a dead-letter queue"
		if l.nonEmpty {
			what = "dead letters"
		}
		printf(l.ErrOut, "There is no ConsumerQueue with %s %s.%s\n", what, kube.where(l.all), elsewhere(l.all))
		return nil
	}
	return l.print(list.Items, true)
}

// list returns the dead-letter queues. If the user may not list Redrives or Purges, it leaves out the messages under way.
func (l *listCommand) list(ctx context.Context, kube session) (*v1alpha1.DeadLetterQueueList, error) {
	queues, err := kube.consumerQueues(ctx, l.all)
	if err != nil {
		return nil, err
	}
	redrives, purges, forbidden, err := jobs.List(ctx, kube, kube.inNamespace(l.all)...)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	list := listing.List(queues.Items, redrives, purges)
	if err != nil || forbidden != nil {
		for i := range list.Items {
			list.Items[i].UnderWay = nil
		}
	}
	return list, nil
}

// watchInterval is the interval at which `dlq ls --watch` lists, and the minimum interval between two watches of `status --watch`. The rows
// of `dlq ls` depend on three kinds of resources, so three watches would cost more than they save.
const watchInterval = 2 * time.Second

// follow prints the queues, then a row for each queue that changes, until the command is stopped.
func (l *listCommand) follow(ctx context.Context, kube session, names []string, last []v1alpha1.DeadLetterQueue) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	if err := l.print(fullest(slices.Clone(last), names, l.nonEmpty), true); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		list, err := l.list(ctx, kube)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := l.print(fullest(changed(last, list.Items), names, false), false); err != nil {
			return err
		}
		last = list.Items
	}
}

// changed returns the queues that are new or have different numbers than before. It leaves out queues that are gone.
func changed(before, now []v1alpha1.DeadLetterQueue) []v1alpha1.DeadLetterQueue {
	type numbers struct{ messages, underWay string }
	numbersOf := func(queue v1alpha1.DeadLetterQueue) numbers {
		return numbers{orDash(queue.Messages), orDash(queue.UnderWay)}
	}
	known := map[client.ObjectKey]numbers{}
	for _, queue := range before {
		known[client.ObjectKey{Namespace: queue.Namespace, Name: queue.Name}] = numbersOf(queue)
	}
	return slices.DeleteFunc(slices.Clone(now), func(queue v1alpha1.DeadLetterQueue) bool {
		was, isKnown := known[client.ObjectKey{Namespace: queue.Namespace, Name: queue.Name}]
		return isKnown && was == numbersOf(queue)
	})
}

// checkNames returns an error if there is no ConsumerQueue with a dead-letter queue for a name.
func checkNames(queues []v1alpha1.DeadLetterQueue, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(queues, func(queue v1alpha1.DeadLetterQueue) bool { return queue.Name == name }) {
			return fmt.Errorf("there is no ConsumerQueue %q with a dead-letter queue: `kubectl warren dlq ls` lists the dead-letter queues",
				name)
		}
	}
	return nil
}

// fullest returns the queues with these names, or all if names is empty, with the most messages first.
func fullest(queues []v1alpha1.DeadLetterQueue, names []string, nonEmpty bool) []v1alpha1.DeadLetterQueue {
	queues = slices.DeleteFunc(queues, func(queue v1alpha1.DeadLetterQueue) bool {
		return len(names) > 0 && !slices.Contains(names, queue.Name) || nonEmpty && ptr.Deref(queue.Messages, 0) == 0
	})
	slices.SortFunc(queues, func(a, b v1alpha1.DeadLetterQueue) int {
		return cmp.Or(cmp.Compare(ptr.Deref(b.Messages, 0), ptr.Deref(a.Messages, 0)), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
	return queues
}

func (l *listCommand) print(queues []v1alpha1.DeadLetterQueue, withHead bool) error {
	return printDeadLetterQueues(l.Out, queues, time.Now(), tableLayout{namespaces: l.all, head: withHead, coloured: isColoured(l.Out)})
}

func printDeadLetterQueues(out io.Writer, queues []v1alpha1.DeadLetterQueue, now time.Time, layout tableLayout) error {
	rows := layout.newTable([]string{"NAME", "QUEUE", "MESSAGES", "COUNTED", "UNDER WAY"})
	for _, queue := range queues {
		rows.add(layout.row(queue.Namespace, []cell{
			cellOf(queue.Name), cellOf(queue.Queue), deadCell(queue.Messages), cellOf(age(now, queue.AsOf)), deadCell(queue.UnderWay),
		})...)
	}
	return rows.print(out)
}

func decimal(count int64) string { return strconv.FormatInt(count, 10) }
