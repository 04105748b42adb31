package cli

import (
	"io"
	"time"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/letters"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// printDeadLetters prints messages for people, one after the other.
func printDeadLetters(out io.Writer, list v1alpha1.DeadLetterList, shown []v1alpha1.DeadLetter, now time.Time) error {
	printf(out, "Queue %s: %s, %d printed.\n", printable.Text(list.Queue), messages(list.Ready), len(shown))
	for _, line := range letters.SeenLines(list.Seen) {
		printf(out, "%s\n", line)
	}
	for _, letter := range shown {
		printf(out, "\n")
		if err := printDeadLetter(out, letter, now); err != nil {
			return err
		}
	}
	return nil
}

func printDeadLetter(out io.Writer, letter v1alpha1.DeadLetter, now time.Time) error {
	fields := newTable(false)
	add := func(name, value string) {
		if value != "" {
			fields.add(text(name+":"), text(value))
		}
	}
	add("Position", decimal(letter.Position))
	add("ID", printable.Text(letter.ID))
	add("Reason", printable.Text(letter.Reason))
	add("Origin", letters.OriginText(letter.Origin))
	if at := letter.Origin.DiedAt; at != nil {
		add("Died", at.UTC().Format(time.RFC3339)+", "+age(now, at)+" ago")
	}
	if letter.Redrives > 0 {
		add("Redrives", decimal(letter.Redrives))
	}
	for _, warning := range letter.Warnings {
		add("Warning", letters.WarningText(warning))
	}
	add("Properties", letters.PropertiesText(letter.Properties))
	for i, line := range letters.HeaderLines(letter.Headers) {
		label := ""
		if i == 0 {
			label = "Headers:"
		}
		fields.add(text(label), text(line))
	}
	add("Body", bodyTitle(letter))
	if err := fields.print(out); err != nil {
		return err
	}
	for _, line := range letters.BodyLines(letter) {
		printf(out, "  %s\n", line)
	}
	return nil
}

func bodyTitle(letter v1alpha1.DeadLetter) string {
	title := decimal(letter.Size) + " bytes"
	if letter.Size == 1 {
		title = "1 byte"
	}
	if letter.BodyTruncated {
		title += ", printed in part: --body-limit prints more"
	}
	return title
}
