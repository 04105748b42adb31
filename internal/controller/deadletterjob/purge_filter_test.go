package deadletterjob

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// deadFor returns a message that was dead-lettered this long before its Purge was created.
func deadFor(t *testing.T, queue string, age time.Duration) *amqp.Delivery {
	t.Helper()
	created := purgeOf(t, atMost5).CreationTimestamp.Time
	return &amqp.Delivery{Headers: amqp.Table{"x-death": []any{amqp.Table{
		"queue": queue, "reason": "rejected", "time": created.Add(-age), "count": int64(1),
	}}}}
}

func TestPurgeFilter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec    string
		shared  bool
		message *amqp.Delivery
		want    string
	}{
		"an empty selector matches every message":          {`{}`, false, deadFor(t, "orders", time.Hour), ""},
		"the message is as old as the expression asks for": {`{selector: {expression: 'age >= duration("1h")'}}`, false, deadFor(t, "orders", time.Hour), ""},
		"the message is a second too young":                {`{selector: {expression: 'age >= duration("1h")'}}`, false, deadFor(t, "orders", time.Hour-time.Second), "NotSelected"},
		"the message belongs to another ConsumerQueue":     {`{}`, true, deadFor(t, "invoices", time.Hour), "OtherOrigin"},
		"a parked message in a shared queue":               {`{}`, true, &amqp.Delivery{}, "NoOrigin"},
		"a parked message, selected by reason":             {`{selector: {reasons: [Parked]}}`, true, &amqp.Delivery{}, "NoOrigin"},
		"a parked message, selected by unknownOrigin":      {`{selector: {unknownOrigin: true}}`, true, &amqp.Delivery{}, ""},
		"a message that was redriven often": {
			`{}`, false, &amqp.Delivery{Headers: amqp.Table{"x-warren-redrive-count": int64(99), deadletter.HeaderRedriveID: "uid"}}, "",
		},
	} {
		made, wrong := newPurgeFilter(purgeOf(t, test.spec), Move{Details: Details{Source: deadletter.Source{Main: "orders", Shared: test.shared}}})
		topologytest.Equal(t, name+": is valid", true, wrong == nil)
		topologytest.Equal(t, name, test.want, made.Skips(test.message, 0))
	}
}
