package deadletterjob

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

// ruleFilter selects the messages of a job. now is the time for the age of messages.
type ruleFilter struct {
	rules deadletter.Rules
	now   func() time.Time
}

func (f ruleFilter) Skips(message *amqp.Delivery, size int64) string {
	return string(f.rules.Skips(f.rules.Source.ReadWithSize(message, size), f.now()))
}

// EvaluationError describes the first evaluation error of the expression; empty if there was none.
func (f ruleFilter) EvaluationError() string { return f.rules.Selector.EvaluationError() }

// newPurgeFilter returns the filter of a Purge. It computes the ages of messages as of the creation of the Purge, so that no message begins
// to match between count and deletion.
func newPurgeFilter(purge *v1alpha1.Purge, m Move) (ruleFilter, *Blocker) {
	selector, wrong := compileSelector(purge.Spec.Selector)
	if wrong != nil {
		return ruleFilter{}, wrong
	}
	created := func() time.Time { return purge.CreationTimestamp.Time }
	return ruleFilter{deadletter.Rules{Source: m.Source, Selector: selector, MaxRedrives: -1}, created}, nil
}
