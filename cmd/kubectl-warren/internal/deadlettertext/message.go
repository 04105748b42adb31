package deadlettertext

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/consumer/contract"
)

// Decode decodes the messages of a response. Numbers keep their notation.
func Decode(list v1alpha1.DeadLetterList) ([]v1alpha1.DeadLetter, error) {
	deadLetters := make([]v1alpha1.DeadLetter, len(list.Items))
	for i, item := range list.Items {
		decoder := json.NewDecoder(bytes.NewReader(item))
		decoder.UseNumber()
		if err := decoder.Decode(&deadLetters[i]); err != nil {
			return nil, fmt.Errorf("read message %d of the response: %w", i, err)
		}
	}
	return deadLetters, nil
}

// OriginText describes the origin of a message as part of a sentence; empty if unknown.
func OriginText(origin v1alpha1.Origin) string {
	var known []string
	if origin.Queue != "" {
		known = append(known, fmt.Sprintf(`queue "%s"`, printable.Text(origin.Queue)))
	}
	if origin.Exchange != nil {
		known = append(known, fmt.Sprintf(`exchange "%s"`, printable.Text(*origin.Exchange)))
	}
	if origin.RoutingKey != nil {
		known = append(known, fmt.Sprintf(`routing key "%s"`, printable.Text(*origin.RoutingKey)))
	}
	return strings.Join(known, ", ")
}

var warningTexts = map[v1alpha1.Warning]string{
	v1alpha1.WarningExpiresInQueue: "the message has an expiration, after which RabbitMQ deletes it",
	v1alpha1.WarningCameBack:       "the message was moved back before, and failed again",
	v1alpha1.WarningNoOrigin:       "the queue of origin is unknown",
	v1alpha1.WarningAMQP10:         "the message was published over AMQP 1.0; not all of it can be seen or moved over AMQP 0-9-1",
}

// WarningText returns a warning with its meaning.
func WarningText(warning v1alpha1.Warning) string {
	if known := warningTexts[warning]; known != "" {
		return string(warning) + ", " + known
	}
	return printable.Text(string(warning))
}

// PropertiesText lists the properties by name.
func PropertiesText(properties map[string]any) string {
	words := make([]string, 0, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		words = append(words, printable.Text(name)+" "+ValueText(properties[name]))
	}
	return strings.Join(words, ", ")
}

// HeaderLines returns the sorted headers, one per line, and one line per entry of x-death.
func HeaderLines(headers map[string]any) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		deaths, isList := headers[name].([]any)
		if name != "x-death" || !isList {
			lines = append(lines, printable.Text(name)+": "+ValueText(headers[name]))
			continue
		}
		for _, death := range deaths {
			lines = append(lines, "x-death: "+deathText(death))
		}
	}
	return lines
}

// deathText describes an entry of x-death. An entry that RabbitMQ would not write is printed as JSON: any client can write the
// header.
func deathText(value any) string {
	entry, _ := value.(map[string]any)
	reason, hasReason := entry["reason"].(string)
	queue, hasQueue := entry["queue"].(string)
	if !hasReason || !hasQueue {
		return ValueText(value)
	}
	line := fmt.Sprintf(`%s in queue "%s"`, printable.Text(reason), printable.Text(queue))
	if count, counted := entry["count"].(json.Number); counted {
		line += fmt.Sprintf(", count %s", printable.Text(count.String()))
	}
	if first, timed := entry["time"].(string); timed {
		line += ", first at " + printable.Text(first)
	}
	if exchange, routed := entry["exchange"].(string); routed {
		line += fmt.Sprintf(`, from exchange "%s"`, printable.Text(exchange))
	}
	if keys, routed := entry["routing-keys"]; routed {
		line += " with routing keys " + ValueText(keys)
	}
	return line
}

// ValueText formats a JSON value: a text without quotes, anything else as JSON.
func ValueText(value any) string {
	if known, isText := value.(string); isText {
		return printable.Text(known)
	}
	buffer := &bytes.Buffer{}
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return printable.Text(fmt.Sprint(value))
	}
	return printable.Text(strings.TrimSuffix(buffer.String(), "\n"))
}

// failureHeaders are headers in which consumers describe a failure: Warren's library, Spring, MassTransit.
var failureHeaders = []string{contract.HeaderFailureMessage, "x-exception-message", "MT-Fault-Message"}

// maxSummary is the limit of a Summary in characters.
const maxSummary = 160

// Failure returns the failure that the consumer recorded; empty if there is none.
func Failure(deadLetter v1alpha1.DeadLetter) string {
	for _, name := range failureHeaders {
		if said, isText := deadLetter.Headers[name].(string); isText && said != "" {
			return printable.Text(said)
		}
	}
	return ""
}

// Summary returns a line that describes a message: the recorded failure, or the beginning of the body.
func Summary(deadLetter v1alpha1.DeadLetter) string {
	summary := Failure(deadLetter)
	switch {
	case summary != "":
	case deadLetter.BodyEncoding == v1alpha1.Base64:
		summary = fmt.Sprintf("%d bytes that are not text", deadLetter.Size)
	default:
		summary = deadLetter.Body
	}
	return oneLine(summary)
}

// Details distinguishes messages with the same Summary: the message ID, and the beginning of the body unless the Summary has it.
func Details(deadLetter v1alpha1.DeadLetter) string {
	var details []string
	if id, isText := deadLetter.Properties["messageId"].(string); isText && id != "" {
		details = append(details, "message-id "+printable.Text(id))
	}
	if Failure(deadLetter) != "" && deadLetter.BodyEncoding != v1alpha1.Base64 && deadLetter.Body != "" {
		details = append(details, oneLine(deadLetter.Body))
	}
	return strings.Join(details, ", ")
}

// oneLine returns the beginning of a text without line breaks.
func oneLine(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > maxSummary {
		line = append(line[:maxSummary-1], '…')
	}
	return printable.Text(string(line))
}

// maxGrowth is how many times longer than the body indented JSON may be. Deeply nested JSON would be mostly indentation.
const maxGrowth = 8

// BodyLines returns a body as lines: indented JSON, other text unchanged, and anything else as a hex dump.
func BodyLines(deadLetter v1alpha1.DeadLetter) []string {
	if deadLetter.Body == "" {
		return nil
	}
	if deadLetter.BodyEncoding == v1alpha1.Base64 {
		if content, err := base64.StdEncoding.DecodeString(deadLetter.Body); err == nil {
			return printable.Lines(hex.Dump(content))
		}
	}
	indented := &bytes.Buffer{}
	if err := json.Indent(indented, []byte(deadLetter.Body), "", "  "); err == nil && indented.Len() < maxGrowth*len(deadLetter.Body)+64 {
		return printable.Lines(indented.String())
	}
	return printable.Lines(deadLetter.Body)
}
