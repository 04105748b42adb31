package deadletterjob

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestRedriveFilter(t *testing.T) {
	t.Parallel()
	died := amqp.Delivery{MessageId: "m1", Headers: amqp.Table{"x-death": []any{amqp.Table{
		"queue": "orders", "reason": "rejected", "exchange": "shop", "routing-keys": []any{"placed"}, "count": int64(1),
	}}}}
	parked := amqp.Delivery{MessageId: "m2"}
	redriven := amqp.Delivery{Headers: amqp.Table{deadletter.HeaderRedriveID: "uid", contract.HeaderRedriveCount: int64(1)}}
	redrive := redriveOf("again", 1, func(r *v1alpha1.Redrive) {
		once := intstr.FromInt32(1)
		r.Spec.MaxRedrives = &once
	})
	from := Move{Queue: QueueKey{Name: "orders.dlq"}, Source: deadletter.Source{Main: "orders"}}
	filterFor := func(change func(*Move)) redriveFilter {
		m := from
		change(&m)
		made, wrong := newRedriveFilter(redrive, m)
		if wrong != nil {
			t.Fatal(wrong)
		}
		return made
	}
	toMain := filterFor(func(m *Move) { toQueue("orders", m) })
	route, message, err := toMain.Copy(&died, 7)
	topologytest.Equal(t, "route to the main queue", contract.Route{RoutingKey: "orders"}, route)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "number", int64(7), message.Headers[deadletter.HeaderRedriveSeq].(int64))
	topologytest.Equal(t, "name", "shop/again", message.Headers[deadletter.HeaderRedriveName].(string))
	topologytest.Equal(t, "skips a message that came back", "CameBack", toMain.Skips(&redriven, 0))
	topologytest.Equal(t, "id", deadletter.Fingerprint(&died), toMain.ID(&died))

	original := filterFor(func(*Move) {})
	route, _, err = original.Copy(&died, 1)
	topologytest.Equal(t, "route to the origin", contract.Route{Exchange: "shop", RoutingKey: "placed"}, route)
	topologytest.Equal(t, "error", nil, err)
	_, _, err = original.Copy(&parked, 1)
	topologytest.Equal(t, "error without an origin", errNoOrigin.Error(), err.Error())

	limited := filterFor(func(m *Move) { m.Limited = true })
	topologytest.Equal(t, "skips no message of a queue with a delivery limit", "", limited.Skips(&redriven, 0))

	redrive.Spec.Selector = &v1alpha1.DeadLetterSelector{Expression: "size >"}
	if _, wrong := newRedriveFilter(redrive, from); wrong == nil {
		t.Error("a selector that does not compile is accepted")
	}
}
