package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/internal/text"
)

type showCommand struct {
	*cluster

	api    apiFlags
	output *output
}

func newDLQShow(c *cluster) *cobra.Command {
	s := &showCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Count dead letters by reason and queue",
		Long: "Count the dead letters of a ConsumerQueue by the reason and the queue in which they died, and optionally by " +
			"the values of a header. REDRIVEN counts messages that were moved back before and failed again. SAMPLE is the ID " +
			"of a message in the group.",
		Example: "  # Count dead letters by the kind of failure that consumers recorded\n" +
			"  kubectl warren dlq show orders --group-by x-failure-kind",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	groupBy := cmd.Flags().String("group-by", "", "also group by the values of this header")
	cmd.Flags().Int("depth", 0, "the maximum number of messages to examine (default 10000)")
	s.api.add(cmd, c)
	s.output = addOutput(cmd, formatTable, formatJSON, formatYAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query := url.Values{}
		if *groupBy != "" {
			query.Set("groupBy", *groupBy)
		}
		numbers(query, cmd, map[string]string{"depth": "depth"})
		return s.run(cmd.Context(), args[0], query)
	}
	return cmd
}

func (s *showCommand) run(ctx context.Context, name string, query url.Values) error {
	answer, namespace, err := s.ask(ctx, s.api, name, "", query)
	if err != nil {
		return err
	}
	if printed, err := s.output.printedAnswer(s.Out, answer); printed || err != nil {
		return err
	}
	queue := v1alpha1.DeadLetterQueue{}
	if err := json.Unmarshal(answer, &queue); err != nil {
		return unknownAnswer(err)
	}
	if queue.Summary == nil {
		return unknownAnswer(errors.New("it has no summary"))
	}
	if err := printSummary(s.Out, queue, time.Now(), isColoured(s.Out)); err != nil {
		return err
	}
	printf(s.ErrOut, "%s", nextOf(queue, namespace))
	return nil
}

// unknownAnswer is the error for a response that this version cannot read.
func unknownAnswer(err error) error {
	return fmt.Errorf("this version of kubectl warren cannot read the response of the dead-letter API; compare versions "+
		"with `kubectl warren version`: %w", err)
}

// ask returns the whole response of the dead-letter API.
func (c *cluster) ask(
	ctx context.Context, api apiFlags, name, subresource string, query url.Values,
) (answer []byte, namespace string, err error) {
	asked, namespace, err := c.deadLetters(ctx, api, waitPrinter(c.ErrOut))
	if err != nil {
		return nil, "", err
	}
	answer, err = asked.Read(ctx, name, subresource, query)
	return answer, namespace, err
}

// waitPrinter returns a function that prints why a command waits.
func waitPrinter(errOut io.Writer) func(string) {
	return func(sentence string) { printf(errOut, "Waiting: %s\n", printable.Text(sentence)) }
}

func printSummary(out io.Writer, queue v1alpha1.DeadLetterQueue, now time.Time, coloured bool) error {
	summary := queue.Summary
	printf(out, "Queue %s: %s", printable.Text(queue.Queue), text.Count(ptr.Deref(queue.Messages, 0), "message"))
	if summary.Examined != ptr.Deref(queue.Messages, 0) {
		printf(out, ", %d examined", summary.Examined)
	}
	printf(out, ".\n")
	for _, line := range deadlettertext.SeenLines(summary.Seen) {
		printf(out, "%s\n", line)
	}
	if len(summary.Groups) == 0 {
		return nil
	}
	printf(out, "\n")
	head := []string{"REASON", "QUEUE"}
	if summary.GroupBy != "" {
		head = append(head, strings.ToUpper(printable.Text(summary.GroupBy)))
	}
	rows := newTable(coloured, append(head, "COUNT", "REDRIVEN", "OLDEST", "NEWEST", "SAMPLE")...)
	for _, group := range summary.Groups {
		row := []cell{cellOf(printable.Text(group.Reason)), cellOf(queueText(group.Queue))}
		if summary.GroupBy != "" {
			row = append(row, cellOf(headerText(group)))
		}
		rows.add(append(row, cellOf(decimal(group.Count)), deadCell(&group.Redriven),
			cellOf(age(now, group.Oldest)), cellOf(age(now, group.Newest)), cellOf(printable.Text(group.SampleID)))...)
	}
	if err := rows.print(out); err != nil {
		return err
	}
	if summary.Others > 0 {
		printf(out, "%s in smaller groups.\n", text.Count(summary.Others, "message"))
	}
	return nil
}

// queueText returns the queue in which messages died, or a dash.
func queueText(name string) string {
	if name == "" {
		return "-"
	}
	return printable.Text(name)
}

// headerText returns the header's value of a group. Messages may lack the header, or its value may be empty.
func headerText(group v1alpha1.Group) string {
	switch {
	case group.Value == nil:
		return "<none>"
	case group.ValueInexact:
		return printable.Text(*group.Value) + "…"
	case *group.Value == "":
		return `""`
	}
	return printable.Text(*group.Value)
}

// age formats an age as kubectl does.
func age(now time.Time, at *metav1.Time) string {
	if at == nil {
		return "-"
	}
	return duration.HumanDuration(max(0, now.Sub(at.Time))) // clocks differ
}

// plainWord matches names and values that need no quoting in a shell or in --header. Publishers control these values.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._:/@-]+$`)

// nextOf suggests commands for the largest group.
func nextOf(queue v1alpha1.DeadLetterQueue, namespace string) string {
	if len(queue.Summary.Groups) == 0 || !plainWord.MatchString(queue.Summary.Groups[0].SampleID) {
		return ""
	}
	group := queue.Summary.Groups[0]
	next := fmt.Sprintf("\nTo print the sample of the first group:\n  kubectl warren dlq peek %s --namespace %s --id %s\n",
		queue.Name, namespace, group.SampleID)
	selection, isPlain := groupFlags(queue.Summary.GroupBy, group)
	if !isPlain {
		return next
	}
	return next + fmt.Sprintf("To count the group, and move it back after a confirmation:\n  "+
		"kubectl warren dlq redrive %s --namespace %s %s\n",
		queue.Name, namespace, selection)
}

// groupFlags returns the flags of a Redrive that select a group; false if the header's value needs quoting in a shell, or is inexact.
func groupFlags(groupBy string, group v1alpha1.Group) (flags string, isPlain bool) {
	flags = fmt.Sprintf(`--died-reason %s --expression 'origin.queue == "%s"'`, group.Reason, group.Queue)
	isPlain = plainWord.MatchString(group.Reason) && (group.Queue == "" || plainWord.MatchString(group.Queue))
	switch {
	case groupBy == "":
		return flags, isPlain
	case group.Value == nil:
		return flags + fmt.Sprintf(" --header '!%s'", groupBy), isPlain && plainWord.MatchString(groupBy)
	}
	return flags + fmt.Sprintf(" --header %s=%s", groupBy, *group.Value),
		isPlain && plainWord.MatchString(groupBy) && plainWord.MatchString(*group.Value) && !group.ValueInexact
}
