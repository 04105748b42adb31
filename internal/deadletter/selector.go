package deadletter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Selection selects the dead letters that match all its fields.
type Selection struct {
	// IDs are fingerprints.
	IDs []string
	// Reasons are why the messages died.
	Reasons []Reason
	Headers []HeaderRequirement
	// DiedAfter and DiedBefore bound the time of a message's first death in its queue of origin. Zero is no bound.
	DiedAfter, DiedBefore time.Time
	// Expression is a CEL expression; see expressionEnvironment.
	Expression string
	// UnknownOrigin also selects messages of a shared dead-letter queue whose queue of origin is unknown.
	UnknownOrigin bool
}

// Operator compares a header.
type Operator string

// The values of Operator, as in label selectors.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// HeaderRequirement compares a header with values. Numbers and booleans are compared as text.
type HeaderRequirement struct {
	Name     string
	Operator Operator
	Values   []string
}

// Selector is a compiled Selection. It is safe for concurrent use.
type Selector struct {
	Selection
	ids        map[string]bool
	expression *compiledExpression // nil if there is no expression
}

// Compile checks and compiles a Selection. Its errors begin with the name of the field.
func Compile(selection Selection) (*Selector, error) {
	s := &Selector{Selection: selection}
	for _, id := range selection.IDs {
		if !isFingerprint.MatchString(id) {
			return nil, fmt.Errorf("ids: %q is not the ID of a dead letter, which has %d characters of a-z and 2-7", id, FingerprintLength)
		}
		if s.ids == nil {
			s.ids = map[string]bool{}
		}
		s.ids[id] = true
	}
	if selection.Expression != "" {
		compiled, err := compileExpression(selection.Expression)
		if err != nil {
			return nil, fmt.Errorf("expression: %w", err)
		}
		s.expression = compiled
	}
	return s, nil
}

var isFingerprint = regexp.MustCompile(fmt.Sprintf("^[a-z2-7]{%d}$", FingerprintLength))

// All reports whether the Selection selects every message.
func (s *Selector) All() bool {
	return s.ids == nil && len(s.Reasons) == 0 && len(s.Headers) == 0 && s.expression == nil &&
		s.DiedAfter.IsZero() && s.DiedBefore.IsZero()
}

// EvaluationError describes the first evaluation error of the expression, without values of the message; empty if there was none.
func (s *Selector) EvaluationError() string {
	if s.expression == nil {
		return ""
	}
	if text := s.expression.failure.Load(); text != nil {
		return *text
	}
	return ""
}

// skips returns why a message is not selected; empty if it is. Cheap checks come first.
func (s *Selector) skips(deadLetter Message, now time.Time) SkipReason {
	if len(s.Reasons) > 0 && !slices.Contains(s.Reasons, deadLetter.Reason) {
		return NotSelected
	}
	if !s.DiedAfter.IsZero() || !s.DiedBefore.IsZero() {
		died := deadLetter.Origin.DiedAt
		switch {
		case died.IsZero():
			return Undated
		case !s.DiedAfter.IsZero() && !died.After(s.DiedAfter), !s.DiedBefore.IsZero() && !died.Before(s.DiedBefore):
			return NotSelected
		}
	}
	for _, requirement := range s.Headers {
		if !requirement.holds(deadLetter.Headers) {
			return NotSelected
		}
	}
	if s.ids != nil && !s.ids[Fingerprint(deadLetter.Delivery)] {
		return NotSelected
	}
	if s.expression != nil {
		return s.expression.skips(deadLetter, now)
	}
	return ""
}

// holds reports whether a message meets the requirement. A header whose value has no text form is in no list of values.
func (r HeaderRequirement) holds(headers amqp.Table) bool {
	value, exists := headers[r.Name]
	switch r.Operator {
	case Exists:
		return exists
	case DoesNotExist:
		return !exists
	}
	text, hasText := HeaderText(value)
	listed := exists && hasText && slices.Contains(r.Values, text)
	return listed == (r.Operator == In)
}

// HeaderText returns the text form of a header's value. ok is false for tables and lists.
func HeaderText(value any) (text string, ok bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case []byte:
		return string(value), true
	case bool:
		return strconv.FormatBool(value), true
	case float32:
		return strconv.FormatFloat(float64(value), 'g', -1, 32), true
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64), true
	case int8, int16, int32, int64, uint8, uint16, uint32:
		return fmt.Sprint(value), true
	}
	return "", false
}
