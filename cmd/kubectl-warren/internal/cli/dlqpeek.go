package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

type peekCommand struct {
	*cluster
	selectorFlags

	api    apiFlags
	output *output
}

func newPeek(c *cluster) *cobra.Command {
	p := &peekCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "peek NAME",
		Short: "Print dead letters and leave them in place",
		Long: "Print messages of a ConsumerQueue's dead-letter queue, from its head. They stay in the queue, in their order. Terminal " +
			"control characters are escaped, such as \\x1b. -o json prints the response of the dead-letter API.",
		Example: "  # The first 20\n" +
			"  kubectl warren dlq peek orders\n\n" +
			"  # Rejected orders from Germany\n" +
			"  kubectl warren dlq peek orders --died-reason Rejected --expression 'body.order.country == \"DE\"'\n\n" +
			"  # The whole body of a message\n" +
			"  kubectl warren dlq peek orders --id k3v5qz7m2w4x6y2a --body-limit 1048576",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	flags := cmd.Flags()
	flags.Int("position", 0, "the position of the first message, from the head of the queue")
	flags.Int("limit", 0, "the maximum number of messages (default 20)")
	flags.Int("body-limit", 0, "the maximum bytes of each body (default 4096)")
	p.add(cmd)
	p.api.add(cmd, c)
	p.output = addOutput(cmd, formatTable, formatJSON, formatYAML, formatName)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := p.query(time.Now())
		if err != nil {
			return err
		}
		numbers(query, cmd, map[string]string{"position": "position", "limit": "limit", "body-limit": "bodyLimit"})
		return p.run(cmd.Context(), args[0], query)
	}
	return cmd
}

func (p *peekCommand) run(ctx context.Context, name string, query url.Values) error {
	answer, _, err := p.ask(ctx, p.api, name, v1alpha1.SubresourceMessages, query)
	if err != nil {
		return err
	}
	if printed, err := p.output.printedAnswer(p.Out, answer); printed || err != nil {
		return err
	}
	list := v1alpha1.DeadLetterList{}
	if err := json.Unmarshal(answer, &list); err != nil {
		return unknownAnswer(err)
	}
	decoded, err := deadlettertext.Decode(list)
	if err != nil {
		return unknownAnswer(err)
	}
	if p.output.format == formatName {
		for _, line := range deadlettertext.SeenLines(list.Seen) {
			printf(p.ErrOut, "%s\n", line)
		}
		for _, deadLetter := range decoded {
			printf(p.Out, "%s\n", printable.Text(deadLetter.ID))
		}
		return nil
	}
	if err := printDeadLetters(p.Out, list, decoded, time.Now()); err != nil {
		return err
	}
	if list.NextPosition != nil {
		printf(p.ErrOut, "\nThere are more messages: repeat the command with --position %d.\n", *list.NextPosition)
	}
	return nil
}
