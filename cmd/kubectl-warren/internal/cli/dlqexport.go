package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/letters"
)

type exportLettersCommand struct {
	*cluster
	genericiooptions.IOStreams
	letterFlags

	door doorFlags
	file string
}

func newDLQExport(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	e := &exportLettersCommand{cluster: c, IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Write dead letters as they are, a line of JSON for each",
		Long: "Write all messages of the dead-letter queue of a ConsumerQueue, a line of JSON for each, with all properties, typed " +
			"headers and the whole body; nothing is redacted. The last line is of kind ExportEnd. Exit code 1 means that messages are " +
			"missing.",
		Example: "  kubectl warren dlq export orders >orders.ndjson\n\n" +
			"  # orders.ndjson appears when all messages are there\n" +
			"  kubectl warren dlq export orders --file orders.ndjson",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
	}
	cmd.Flags().StringVar(&e.file, "file", "", "write to this file, which is FILE.part until all messages are there")
	e.add(cmd)
	e.door.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := e.query(time.Now())
		if err != nil {
			return err
		}
		return e.run(cmd.Context(), args[0], query)
	}
	return cmd
}

func (e *exportLettersCommand) run(ctx context.Context, name string, query url.Values) error {
	asked, _, err := e.deadLetters(ctx, e.door, saying(e.ErrOut))
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

// writeFile writes to a file by another name, until all messages are there. Only its owner may read what nobody has redacted.
func (e *exportLettersCommand) writeFile(body io.Reader) error {
	part := e.file + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(e.write(file, body, "in "+part), file.Close()); err != nil {
		return err
	}
	return os.Rename(part, e.file)
}

// write copies an export. Its error says what is missing, and where what came is.
func (e *exportLettersCommand) write(out io.Writer, body io.Reader, where string) error {
	count, end, err := deadletterclient.CopyExport(out, body)
	for _, line := range letters.SeenLines(v1alpha1.Seen{Skipped: end.Skipped, EvaluationError: end.EvaluationError}) {
		printf(e.ErrOut, "%s\n", line)
	}
	if err != nil {
		return fmt.Errorf("the export is not complete: %w. What came is %s: %s", err, where, messages(count))
	}
	printf(e.ErrOut, "Exported %s.\n", messages(count))
	return nil
}
