package purge

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/transfers"
	"github.com/warren-mq/warren/internal/deadletter"
)

// judge decides which messages a Purge is about.
type judge struct {
	rules deadletter.Rules
	now   time.Time
}

func (j judge) Skips(message *amqp.Delivery) string {
	return string(j.rules.Skips(j.rules.Source.Read(message), j.now))
}

func (j judge) ID(message *amqp.Delivery) string { return deadletter.Fingerprint(message) }

// judgeOf makes the judge of a Purge. The age of messages is that at the time when the Purge was created, so that none comes to match
// between the count and the deletion.
func judgeOf(purge *v1alpha1.Purge, m transfers.Move) (judge, *transfers.Halt) {
	selector, wrong := transfers.Compile(purge.Spec.Selector)
	if wrong != nil {
		return judge{}, wrong
	}
	return judge{deadletter.Rules{Source: m.Source, Selector: selector, MaxRedrives: -1}, purge.CreationTimestamp.Time}, nil
}
