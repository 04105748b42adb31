package deadletter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// The operators of a v1alpha1.HeaderRequirement.
const (
	in           = "In"
	exists       = "Exists"
	doesNotExist = "DoesNotExist"
)

// Selector is a compiled selector. It is safe for concurrent use.
type Selector struct {
	v1alpha1.DeadLetterSelector
	ids        map[string]bool
	expression *compiledExpression // nil if there is no expression
}

// Compile checks and compiles a selector. Its errors begin with the name of the field.
func Compile(given v1alpha1.DeadLetterSelector) (*Selector, error) {
	s := &Selector{DeadLetterSelector: given}
	for _, id := range given.IDs {
		if !isFingerprint.MatchString(id) {
			return nil, fmt.Errorf("ids: %q is not the ID of a dead letter, which has %d characters of a-z and 2-7", id, fingerprintLength)
		}
		if s.ids == nil {
			s.ids = map[string]bool{}
		}
		s.ids[id] = true
	}
	if given.Expression != "" {
		compiled, err := compileExpression(given.Expression)
		if err != nil {
			return nil, fmt.Errorf("expression: %w", err)
		}
		s.expression = compiled
	}
	return s, nil
}

var isFingerprint = regexp.MustCompile(fmt.Sprintf("^[a-z2-7]{%d}$", fingerprintLength))

// All reports whether the selector selects every message.
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
		case !s.DiedAfter.IsZero() && !died.After(s.DiedAfter.Time), !s.DiedBefore.IsZero() && !died.Before(s.DiedBefore.Time):
			return NotSelected
		}
	}
	for _, requirement := range s.Headers {
		if !holds(requirement, deadLetter.Headers) {
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

// holds reports whether a message meets a requirement. A header whose value has no text form is in no list of values.
func holds(r v1alpha1.HeaderRequirement, headers amqp.Table) bool {
	value, has := headers[r.Name]
	switch r.Operator {
	case exists:
		return has
	case doesNotExist:
		return !has
	}
	text, hasText := HeaderText(value)
	listed := has && hasText && slices.Contains(r.Values, text)
	return listed == (r.Operator == in)
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
