package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

// lettersOf reads the messages of an answer. Numbers stay as they were written.
func lettersOf(list v1alpha1.DeadLetterList) ([]v1alpha1.DeadLetter, error) {
	letters := make([]v1alpha1.DeadLetter, len(list.Items))
	for i, item := range list.Items {
		decoder := json.NewDecoder(bytes.NewReader(item))
		decoder.UseNumber()
		if err := decoder.Decode(&letters[i]); err != nil {
			return nil, fmt.Errorf("read message %d of the answer: %w", i, err)
		}
	}
	return letters, nil
}

// printLetters prints messages for people, one after the other.
func printLetters(out io.Writer, list v1alpha1.DeadLetterList, letters []v1alpha1.DeadLetter, now time.Time) error {
	printf(out, "Queue %s: %s, %d printed.\n", printable(list.Queue), messages(list.Ready), len(letters))
	for _, line := range seenLines(list.Seen) {
		printf(out, "%s\n", line)
	}
	for _, letter := range letters {
		printf(out, "\n")
		if err := printLetter(out, letter, now); err != nil {
			return err
		}
	}
	return nil
}

func printLetter(out io.Writer, letter v1alpha1.DeadLetter, now time.Time) error {
	fields := newTable(false)
	add := func(name, value string) {
		if value != "" {
			fields.add(text(name+":"), text(value))
		}
	}
	add("Position", decimal(letter.Position))
	add("ID", printable(letter.ID))
	add("Reason", printable(letter.Reason))
	add("Origin", originText(letter.Origin))
	if at := letter.Origin.DiedAt; at != nil {
		add("Died", at.UTC().Format(time.RFC3339)+", "+age(now, at)+" ago")
	}
	if letter.Redrives > 0 {
		add("Redrives", decimal(letter.Redrives))
	}
	for _, warning := range letter.Warnings {
		add("Warning", warningText(warning))
	}
	add("Properties", propertiesText(letter.Properties))
	for i, line := range headerLines(letter.Headers) {
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
	for _, line := range bodyLines(letter) {
		printf(out, "  %s\n", line)
	}
	return nil
}

func originText(origin v1alpha1.Origin) string {
	var known []string
	if origin.Queue != "" {
		known = append(known, fmt.Sprintf(`queue "%s"`, printable(origin.Queue)))
	}
	if origin.Exchange != nil {
		known = append(known, fmt.Sprintf(`exchange "%s"`, printable(*origin.Exchange)))
	}
	if origin.RoutingKey != nil {
		known = append(known, fmt.Sprintf(`routing key "%s"`, printable(*origin.RoutingKey)))
	}
	return strings.Join(known, ", ")
}

var warningTexts = map[v1alpha1.Warning]string{
	v1alpha1.WarningExpiresInQueue: "the message has an expiration, and is deleted when that is over",
	v1alpha1.WarningCameBack:       "the message was moved back before, and failed again",
	v1alpha1.WarningNoOrigin:       "the message does not tell which queue it comes from",
	v1alpha1.WarningAMQP10:         "the message was published over AMQP 1.0; not all of it can be seen or moved over AMQP 0-9-1",
}

func warningText(warning v1alpha1.Warning) string {
	if known := warningTexts[warning]; known != "" {
		return string(warning) + ", " + known
	}
	return printable(string(warning))
}

func propertiesText(properties map[string]any) string {
	words := make([]string, 0, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		words = append(words, printable(name)+" "+anyText(properties[name]))
	}
	return strings.Join(words, ", ")
}

// headerLines are the headers, sorted, one a line; of x-death each entry has a line of its own.
func headerLines(headers map[string]any) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		deaths, isList := headers[name].([]any)
		if name != "x-death" || !isList {
			lines = append(lines, printable(name)+": "+anyText(headers[name]))
			continue
		}
		for _, death := range deaths {
			lines = append(lines, "x-death: "+deathText(death))
		}
	}
	return lines
}

// deathText is an entry of x-death in words. What RabbitMQ would not write so is printed as JSON: any client can write the header.
func deathText(value any) string {
	entry, _ := value.(map[string]any)
	reason, hasReason := entry["reason"].(string)
	queue, hasQueue := entry["queue"].(string)
	if !hasReason || !hasQueue {
		return anyText(value)
	}
	line := fmt.Sprintf(`%s in queue "%s"`, printable(reason), printable(queue))
	if count, counted := entry["count"].(json.Number); counted {
		line += fmt.Sprintf(", count %s", printable(count.String()))
	}
	if first, timed := entry["time"].(string); timed {
		line += ", first at " + printable(first)
	}
	if exchange, routed := entry["exchange"].(string); routed {
		line += fmt.Sprintf(`, from exchange "%s"`, printable(exchange))
	}
	if keys, routed := entry["routing-keys"]; routed {
		line += " with routing keys " + anyText(keys)
	}
	return line
}

// anyText is a value of JSON: a text as it is, all else as JSON.
func anyText(value any) string {
	if known, isText := value.(string); isText {
		return printable(known)
	}
	buffer := &bytes.Buffer{}
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return printable(fmt.Sprint(value))
	}
	return printable(strings.TrimSuffix(buffer.String(), "\n"))
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

// mostGrowth is how many times longer than a body its JSON may become by being indented: JSON can be nested so deeply that there are only
// spaces to see.
const mostGrowth = 8

// bodyLines is a body as lines: JSON indented, other text as it is, and all else as a hex dump.
func bodyLines(letter v1alpha1.DeadLetter) []string {
	if letter.Body == "" {
		return nil
	}
	if letter.BodyEncoding == v1alpha1.Base64 {
		if content, err := base64.StdEncoding.DecodeString(letter.Body); err == nil {
			return printableLines(hex.Dump(content))
		}
	}
	indented := &bytes.Buffer{}
	if err := json.Indent(indented, []byte(letter.Body), "", "  "); err == nil && indented.Len() < mostGrowth*len(letter.Body)+64 {
		return printableLines(indented.String())
	}
	return printableLines(letter.Body)
}
