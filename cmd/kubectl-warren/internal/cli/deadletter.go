package cli

import (
	"io"
	"time"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/internal/text"
)

// printDeadLetters prints messages for people, one after the other.
func printDeadLetters(out io.Writer, list v1alpha1.DeadLetterList, shown []v1alpha1.DeadLetter, now time.Time) error {
	printf(out, "Queue %s: %s, %d printed.\n", printable.Text(list.Queue), text.Count(list.Ready, "message"), len(shown))
	for _, line := range deadlettertext.SeenLines(list.Seen) {
		printf(out, "%s\n", line)
	}
	for _, deadLetter := range shown {
		printf(out, "\n")
		if err := printDeadLetter(out, deadLetter, now); err != nil {
			return err
		}
	}
	return nil
}

func printDeadLetter(out io.Writer, deadLetter v1alpha1.DeadLetter, now time.Time) error {
	fields := newTable(false)
	add := func(name, value string) {
		if value != "" {
			fields.add(cellOf(name+":"), cellOf(value))
		}
	}
	add("Position", decimal(deadLetter.Position))
	add("ID", printable.Text(deadLetter.ID))
	add("Reason", printable.Text(deadLetter.Reason))
	add("Origin", deadlettertext.OriginText(deadLetter.Origin))
	if at := deadLetter.Origin.DiedAt; at != nil {
		add("Died", at.UTC().Format(time.RFC3339)+", "+age(now, at)+" ago")
	}
	if deadLetter.Redrives > 0 {
		add("Redrives", decimal(deadLetter.Redrives))
	}
	for _, warning := range deadLetter.Warnings {
		add("Warning", deadlettertext.WarningText(warning))
	}
	add("Properties", deadlettertext.PropertiesText(deadLetter.Properties))
	for i, line := range deadlettertext.HeaderLines(deadLetter.Headers) {
		label := ""
		if i == 0 {
			label = "Headers:"
		}
		fields.add(cellOf(label), cellOf(line))
	}
	add("Body", bodyTitle(deadLetter))
	if err := fields.print(out); err != nil {
		return err
	}
	for _, line := range deadlettertext.BodyLines(deadLetter) {
		printf(out, "  %s\n", line)
	}
	return nil
}

func bodyTitle(deadLetter v1alpha1.DeadLetter) string {
	title := text.Count(deadLetter.Size, "byte")
	if deadLetter.BodyTruncated {
		title += ", printed in part: --body-limit prints more"
	}
	return title
}
