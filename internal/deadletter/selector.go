package deadletter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Selection says which dead letters are meant: those for which all that is given holds.
type Selection struct {
	// IDs are fingerprints.
	IDs []string
	// Reasons are why the messages died.
	Reasons []Reason
	Headers []HeaderRequirement
	// DiedAfter and DiedBefore bound when the messages died first in the queue that they came from; zero is no bound.
	DiedAfter, DiedBefore time.Time
	// Expression is a CEL expression; see expressionEnvironment.
	Expression string
	// UnknownOrigin has messages of a shared dead-letter queue selected, too, that do not tell which queue they come from.
	UnknownOrigin bool
}

// Operator compares a header.
type Operator string

// The operators, as label selectors have them.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// HeaderRequirement compares a header with values. Numbers and truth values are compared as text.
type HeaderRequirement struct {
	Name     string
	Operator Operator
	Values   []string
}

// Selector is a Selection that is ready for use. Its methods may be called at the same time.
type Selector struct {
	Selection
	ids        map[string]bool
	expression *compiledExpression // nil if there is no expression
}

// Compile checks a Selection. Its errors begin with the field.
func Compile(selection Selection) (*Selector, error) {
	s := &Selector{Selection: selection}
	for _, id := range selection.IDs {
		if !isFingerprint.MatchString(id) {
			return nil, fmt.Errorf("ids: %q is no id of a dead letter: an id has %d characters of a-z and 2-7", id, FingerprintLength)
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

// All says whether the Selection leaves out no message.
func (s *Selector) All() bool {
	return s.ids == nil && len(s.Reasons) == 0 && len(s.Headers) == 0 && s.expression == nil &&
		s.DiedAfter.IsZero() && s.DiedBefore.IsZero()
}

// EvaluationError says why the expression failed on a message for the first time, without values of the message; empty if it has not
// failed.
func (s *Selector) EvaluationError() string {
	if s.expression == nil {
		return ""
	}
	if text := s.expression.failure.Load(); text != nil {
		return *text
	}
	return ""
}

// skips says why a message is not meant; empty if the message is. What costs little is asked first.
func (s *Selector) skips(letter Letter, now time.Time) SkipReason {
	if len(s.Reasons) > 0 && !slices.Contains(s.Reasons, letter.Reason) {
		return NotSelected
	}
	if !s.DiedAfter.IsZero() || !s.DiedBefore.IsZero() {
		died := letter.Origin.DiedAt
		switch {
		case died.IsZero():
			return Undated
		case !s.DiedAfter.IsZero() && !died.After(s.DiedAfter), !s.DiedBefore.IsZero() && !died.Before(s.DiedBefore):
			return NotSelected
		}
	}
	for _, requirement := range s.Headers {
		if !requirement.holds(letter.Headers) {
			return NotSelected
		}
	}
	if s.ids != nil && !s.ids[Fingerprint(letter.Delivery)] {
		return NotSelected
	}
	if s.expression != nil {
		return s.expression.skips(letter, now)
	}
	return ""
}

// holds says whether a message has the header that is required. A header that holds neither text nor number nor truth value has no text
// to compare: it is in no list of values.
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

// HeaderText is how a header is written in a list of values.
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
