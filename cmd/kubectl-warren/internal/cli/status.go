package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

type statusCommand struct {
	*cluster

	output     *output
	all, watch bool
}

func newStatus(c *cluster) *cobra.Command {
	s := &statusCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the status of ConsumerQueues",
		Long: "Show the status of the ConsumerQueues of the namespace, or the details of one. OBJECTS is how many objects match " +
			"the spec, out of all objects. DEAD is the number of dead letters in the status, which Warren writes when the order of " +
			"magnitude changes. DEAD also shows how many dead letters are stuck because RabbitMQ cannot route them.",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	s.output = addOutput(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "show the ConsumerQueues of all namespaces")
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "watch for changes after listing")
	return cmd
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	switch {
	case s.all && len(args) > 0:
		return errNameAndAll
	case s.watch && (s.output.format == formatJSON || s.output.format == formatYAML):
		return usageError("--watch prints a table: remove --output %s", s.output.format)
	}
	kube, err := s.open()
	if err != nil {
		return err
	}
	if len(args) > 0 && !s.watch {
		return s.one(ctx, kube, args[0])
	}
	return s.list(ctx, kube, args)
}

func (s *statusCommand) one(ctx context.Context, kube session, name string) error {
	cq, err := kube.consumerQueue(ctx, name)
	if err != nil {
		return err
	}
	if s.output.format == formatName {
		printf(s.Out, "%s\n", queueResource(cq.Name))
		return nil
	}
	if printed, err := s.output.printed(s.Out, typed(cq, "ConsumerQueue")); printed || err != nil {
		return err
	}
	return printStatus(s.Out, cq, isColoured(s.Out))
}

// queueResource returns the name of a ConsumerQueue for -o name.
func queueResource(name string) string { return "consumerqueue.messaging.warren.dev/" + name }

func (s *statusCommand) list(ctx context.Context, kube session, args []string) error {
	options := kube.inNamespace(s.all)
	if len(args) > 0 {
		options = append(options, client.MatchingFields{"metadata.name": args[0]})
	}
	list := &v1alpha1.ConsumerQueueList{}
	if err := kube.List(ctx, list, options...); err != nil {
		return err
	}
	for i := range list.Items {
		typed(&list.Items[i], "ConsumerQueue")
	}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ConsumerQueueList"))
	if printed, err := s.output.printed(s.Out, list); printed || err != nil {
		return err
	}
	if len(list.Items) == 0 && !s.watch {
		printf(s.ErrOut, "There is no ConsumerQueue %s.%s\n", kube.where(s.all), elsewhere(s.all))
		return nil
	}
	if err := s.printRows(list.Items, true); err != nil || !s.watch {
		return err
	}
	return s.follow(ctx, kube, list.ResourceVersion, options)
}

// follow prints a row for each change until the command is stopped. The API server ends each watch after some minutes; a new
// watch then continues from the last resource version, at most one in each watchInterval.
func (s *statusCommand) follow(ctx context.Context, kube session, from string, options []client.ListOption) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		at := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true}}
		watching, err := kube.Watch(ctx, &v1alpha1.ConsumerQueueList{}, append(slices.Clip(options), at)...)
		if err == nil {
			from, err = s.printEvents(watching, from)
			watching.Stop()
		}
		if err != nil && ctx.Err() == nil { // otherwise the user stopped the command
			return err
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// printEvents prints changes until the watch ends, and returns the last resource version.
func (s *statusCommand) printEvents(watching watch.Interface, from string) (string, error) {
	for event := range watching.ResultChan() {
		cq, ok := event.Object.(*v1alpha1.ConsumerQueue)
		if !ok {
			return from, apierrors.FromObject(event.Object)
		}
		from = cq.ResourceVersion
		var err error
		switch event.Type {
		case watch.Bookmark:
		case watch.Deleted:
			printf(s.Out, "%s deleted\n", queueResource(cq.Name))
		default:
			err = s.printRows([]v1alpha1.ConsumerQueue{*cq}, false)
		}
		if err != nil {
			return from, err
		}
	}
	return from, nil
}

func (s *statusCommand) printRows(queues []v1alpha1.ConsumerQueue, withHead bool) error {
	if s.output.format == formatName {
		for i := range queues {
			printf(s.Out, "%s\n", queueResource(queues[i].Name))
		}
		return nil
	}
	return printStatuses(s.Out, queues, tableLayout{
		namespaces: s.all, wide: s.output.format == formatWide, head: withHead, coloured: isColoured(s.Out),
	})
}

// statusSummary is a row of the command status.
type statusSummary struct {
	Namespace, Name, Queue   string
	Ready, Drifted, Recreate metav1.ConditionStatus
	Reason, Message          string
	InSync, Objects          int
	DeadLettered, Stuck      *int64
	Advisories               int
}

func summaryOf(cq *v1alpha1.ConsumerQueue) statusSummary {
	condition := func(kind string) metav1.Condition {
		if found := meta.FindStatusCondition(cq.Status.Conditions, kind); found != nil {
			return *found
		}
		return metav1.Condition{Status: metav1.ConditionUnknown}
	}
	ready := condition(v1alpha1.ConditionReady)
	summary := statusSummary{
		Namespace: cq.Namespace, Name: cq.Name, Queue: cq.QueueName(), Ready: ready.Status, Reason: ready.Reason, Message: ready.Message,
		Drifted: condition(v1alpha1.ConditionDrifted).Status, Recreate: condition(v1alpha1.ConditionRecreationRequired).Status,
		Advisories: len(cq.Status.Advisories),
	}
	for _, entry := range cq.Status.Topology {
		if entry.State == v1alpha1.StateForeign || entry.State == v1alpha1.StateOrphaned {
			continue
		}
		summary.Objects++
		if entry.State == v1alpha1.StateInSync {
			summary.InSync++
		}
	}
	if cq.Status.Messages != nil {
		summary.DeadLettered, summary.Stuck = cq.Status.Messages.DeadLettered, cq.Status.Messages.Stuck
	}
	return summary
}

var conditionColour = map[metav1.ConditionStatus]colour{
	metav1.ConditionTrue: green, metav1.ConditionFalse: red, metav1.ConditionUnknown: yellow,
}

// badIfTrue has the colours of conditions that should be False.
var badIfTrue = map[metav1.ConditionStatus]colour{metav1.ConditionTrue: red, metav1.ConditionUnknown: yellow}

func printStatuses(out io.Writer, queues []v1alpha1.ConsumerQueue, layout tableLayout) error {
	head := []string{"NAME", "QUEUE", "READY", "REASON", "DRIFTED", "RECREATE", "OBJECTS", "DEAD"}
	rows := layout.newTable(head, "ADVISORIES", "MESSAGE")
	for i := range queues {
		each := summaryOf(&queues[i])
		rows.add(layout.row(each.Namespace, []cell{
			cellOf(each.Name), cellOf(each.Queue),
			{string(each.Ready), conditionColour[each.Ready]},
			cellOf(each.Reason),
			{string(each.Drifted), badIfTrue[each.Drifted]},
			{string(each.Recreate), badIfTrue[each.Recreate]},
			cellOf(fmt.Sprintf("%d/%d", each.InSync, each.Objects)), deadOrStuckCell(each.DeadLettered, each.Stuck),
		}, cellOf(strconv.Itoa(each.Advisories)), cellOf(each.Message))...)
	}
	return rows.print(out)
}

// deadOrStuckCell shows the dead letters, and how many of them RabbitMQ cannot route.
func deadOrStuckCell(dead, stuck *int64) cell {
	shown := deadCell(dead)
	if ptr.Deref(stuck, 0) > 0 {
		return cell{fmt.Sprintf("%s, %d stuck", shown.text, *stuck), red}
	}
	return shown
}

func deadCell(count *int64) cell {
	switch {
	case count == nil:
		return cellOf("-")
	case *count > 0:
		return cell{strconv.FormatInt(*count, 10), yellow}
	}
	return cellOf("0")
}
