package ui

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// selection is the selection of messages in forms and links. A message must match all fields.
type selection struct {
	IDs, Reasons []string
	// Header, Operator and Value are a requirement of one header; none if Header is empty.
	Header, Operator, Value string
	Expression              string
}

// The parameters of a selection.
const (
	parameterID         = "id"
	parameterReason     = "reason"
	parameterHeader     = "header"
	parameterOperator   = "operator"
	parameterValue      = "value"
	parameterExpression = "expression"
	// parameterChosen marks the form whose boxes choose messages. Without it, a form without a ticked box would select all messages.
	parameterChosen = "chosen"
)

func selectionOf(values url.Values) selection {
	s := selection{
		IDs: values[parameterID], Reasons: values[parameterReason],
		Header: values.Get(parameterHeader), Operator: values.Get(parameterOperator), Value: values.Get(parameterValue),
		Expression: strings.TrimSpace(values.Get(parameterExpression)),
	}
	if s.Header == "" {
		s.Operator = ""
	}
	if !s.comparesValue() {
		s.Value = ""
	}
	return s
}

// IsAll reports whether all messages are selected.
func (s selection) IsAll() bool {
	return len(s.IDs)+len(s.Reasons) == 0 && s.Header == "" && s.Expression == ""
}

// comparesValue reports whether the operator needs a value.
func (s selection) comparesValue() bool { return s.Operator == "In" || s.Operator == "NotIn" }

// spec returns the selector of a Redrive or Purge; nil for all messages.
func (s selection) spec() *v1alpha1.DeadLetterSelector {
	if s.IsAll() {
		return nil
	}
	spec := &v1alpha1.DeadLetterSelector{IDs: s.IDs, Expression: s.Expression}
	for _, reason := range s.Reasons {
		spec.Reasons = append(spec.Reasons, v1alpha1.DeadLetterReason(reason))
	}
	if s.Header != "" {
		requirement := v1alpha1.HeaderRequirement{Name: s.Header, Operator: s.Operator}
		if s.comparesValue() {
			requirement.Values = []string{s.Value}
		}
		spec.Headers = []v1alpha1.HeaderRequirement{requirement}
	}
	return spec
}

// values returns the parameters of a link for the selection.
func (s selection) values() url.Values {
	values := url.Values{}
	for name, given := range map[string][]string{parameterID: s.IDs, parameterReason: s.Reasons} {
		if len(given) > 0 {
			values[name] = given
		}
	}
	for name, given := range map[string]string{
		parameterHeader: s.Header, parameterOperator: s.Operator, parameterValue: s.Value, parameterExpression: s.Expression,
	} {
		if given != "" {
			values.Set(name, given)
		}
	}
	return values
}

// Words describes the selection.
func (s selection) Words() []string {
	var words []string
	if len(s.IDs) > 0 {
		words = append(words, plural(int64(len(s.IDs)), "chosen message"))
	}
	if len(s.Reasons) > 0 {
		words = append(words, "reason "+strings.Join(s.Reasons, " or "))
	}
	switch s.Operator {
	case "In":
		words = append(words, "header "+s.Header+" is "+s.Value)
	case "NotIn":
		words = append(words, "header "+s.Header+" is not "+s.Value)
	case "Exists":
		words = append(words, "with header "+s.Header)
	case "DoesNotExist":
		words = append(words, "without header "+s.Header)
	}
	if s.Expression != "" {
		words = append(words, expressionText(s.Expression))
	}
	return words
}

// expressionText describes an expression. The expression of a group selects the queue in which the messages died.
func expressionText(expression string) string {
	quoted, ofGroup := strings.CutPrefix(expression, diedIn)
	name := ""
	switch err := json.Unmarshal([]byte(quoted), &name); {
	case !ofGroup || err != nil:
		return expression
	case name == "":
		return "died in an unknown queue"
	}
	return "died in queue " + name
}

// diedIn is the beginning of a group's expression.
const diedIn = "origin.queue == "

// ofQueue returns the CEL expression for messages that died in a queue, or of unknown origin if the name is empty. CEL reads a
// JSON string as the same text.
func ofQueue(name string) string {
	quoted, _ := json.Marshal(name) // a string can always be encoded
	return diedIn + string(quoted)
}
