package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/internal/text"
)

type exportDeadLettersCommand struct {
	*cluster
	selectorFlags

	api   apiFlags
	file  string
	force bool
}

func newDLQExport(c *cluster) *cobra.Command {
	e := &exportDeadLettersCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Export dead letters unredacted, as lines of JSON",
		Long: "Export the messages of a ConsumerQueue's dead-letter queue that the flags select, or all of them. Each message is a " +
			"line of JSON with all properties, typed headers and the whole body. Nothing is redacted. The last line has the kind " +
			"ExportEnd. Exit code 1 means that messages are missing.",
		Example: "  # Write orders.ndjson once the export is complete, readable only by you\n" +
			"  kubectl warren dlq export orders --file orders.ndjson\n\n" +
			"  # Export the dead letters of a tenant from the last 30 days\n" +
			"  kubectl warren dlq export orders --header x-tenant=acme --died-after 30d --file acme.ndjson",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	cmd.Flags().StringVar(&e.file, "file", "", "write to this file; its name is FILE.part until the export is complete")
	cmd.Flags().BoolVar(&e.force, "force", false, "replace the file, and FILE.part, if they exist")
	e.add(cmd)
	e.api.add(cmd, c)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := e.query(time.Now())
		if err != nil {
			return err
		}
		return e.run(cmd.Context(), args[0], query)
	}
	return cmd
}

func (e *exportDeadLettersCommand) run(ctx context.Context, name string, query url.Values) error {
	if e.file != "" {
		if err := checkAbsent(e.force, e.file, partOf(e.file)); err != nil {
			return err
		}
	}
	asked, _, err := e.deadLetters(ctx, e.api, waitPrinter(e.ErrOut))
	if err != nil {
		return err
	}
	body, err := asked.Get(ctx, name, v1alpha1.SubresourceExport, query)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if e.file == "" {
		return e.write(e.Out, body, "on stdout")
	}
	return e.writeFile(body)
}

// writeFile writes the file of --file. Nothing in it is redacted. A script may purge the messages after this command.
func (e *exportDeadLettersCommand) writeFile(body io.Reader) error {
	return writeFile(e.file, e.force, func(out *os.File) error { return e.write(out, body, "in "+out.Name()) })
}

// write copies an export. Its error says what is missing, and where the received part is.
func (e *exportDeadLettersCommand) write(out io.Writer, body io.Reader, where string) error {
	count, end, err := deadletterclient.CopyExport(out, body)
	for _, line := range deadlettertext.SeenLines(v1alpha1.Seen{Skipped: end.Skipped, EvaluationError: end.EvaluationError}) {
		printf(e.ErrOut, "%s\n", line)
	}
	if err != nil {
		return fmt.Errorf("the export is not complete: %w. The received part is %s: %s", err, where, text.Count(count, "message"))
	}
	printf(e.ErrOut, "Exported %s.\n", text.Count(count, "message"))
	return nil
}
