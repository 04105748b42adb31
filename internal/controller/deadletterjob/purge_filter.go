package deadletterjob

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

// purgeFilter selects the messages of a Purge.
type purgeFilter struct {
	rules deadletter.Rules
	now   time.Time
}

func (f purgeFilter) Skips(message *amqp.Delivery, size int64) string {
	return string(f.rules.Skips(f.rules.Source.ReadWithSize(message, size), f.now))
}

// newPurgeFilter returns the filter of a Purge. It computes the ages of messages as of the creation of the Purge, so that no message begins
// to match between count and deletion.
func newPurgeFilter(purge *v1alpha1.Purge, m Move) (purgeFilter, *Blocker) {
	selector, wrong := compileSelector(purge.Spec.Selector)
	if wrong != nil {
		return purgeFilter{}, wrong
	}
	return purgeFilter{deadletter.Rules{Source: m.Source, Selector: selector, MaxRedrives: -1}, purge.CreationTimestamp.Time}, nil
}
