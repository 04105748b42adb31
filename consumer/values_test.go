package consumer

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// Not parallel: other tests allocate, too.
func TestTheContextOfASettlementCostsNoAllocation(t *testing.T) { //nolint:paralleltest // see above
	current := contract.Default("orders")
	ctx, deliveries := t.Context(), make([]*Delivery, 102)
	for i := range deliveries {
		deliveries[i] = newDelivery(amqp.Delivery{}, &current)
	}
	var last context.Context
	if count := testing.AllocsPerRun(100, func() {
		d := deliveries[0]
		deliveries = deliveries[1:]
		d.recordContext(ctx)
		last = d.handlerValues(context.Background()) //nolint:fatcontext // not nested
	}); count > 0 {
		t.Errorf("%.0f allocations", count)
	}
	if last == context.Background() {
		t.Error("the context was not recorded")
	}
}
