package redrive

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestSelectionOf(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	later := metav1.NewTime(noon.Add(time.Hour))
	earlier := metav1.NewTime(noon)
	topologytest.Equal(t, "nothing", deadletter.Selection{}, selectionOf(nil))
	topologytest.Equal(t, "everything", deadletter.Selection{
		IDs: []string{"aaaabbbbccccdddd"}, Reasons: []deadletter.Reason{deadletter.Rejected}, Where: "size > 1",
		Headers:   []deadletter.HeaderRequirement{{Name: "tenant", Operator: deadletter.In, Values: []string{"acme"}}},
		DiedAfter: noon, DiedBefore: later.Time,
	}, selectionOf(&v1alpha1.DeadLetterSelection{
		IDs: []string{"aaaabbbbccccdddd"}, Reasons: []v1alpha1.DeadLetterReason{"Rejected"}, Where: "size > 1",
		Headers:   []v1alpha1.HeaderRequirement{{Name: "tenant", Operator: "In", Values: []string{"acme"}}},
		DiedAfter: &earlier, DiedBefore: &later,
	}))
}

func TestNumberOf(t *testing.T) {
	t.Parallel()
	number, unlimited := intstr.FromInt32(5), intstr.FromString(v1alpha1.Unlimited)
	topologytest.Equal(t, "a number", 5, numberOf(&number, -1))
	topologytest.Equal(t, "Unlimited", -1, numberOf(&unlimited, -1))
	topologytest.Equal(t, "nothing", -1, numberOf(nil, -1))
}

func TestJudge(t *testing.T) {
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
	from := move{turn: turn{queue: "orders.dlq"}, source: deadletter.Source{Main: "orders"}}
	judgeFor := func(change func(*move)) judge {
		m := from
		change(&m)
		made, err := judgeOf(redrive, m)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	toMain := judgeFor(func(m *move) { toQueue("orders", m) })
	route, message, err := toMain.Copy(&died, 7)
	topologytest.Equal(t, "route to the main queue", contract.Route{RoutingKey: "orders"}, route)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "number", int64(7), message.Headers[deadletter.HeaderRedriveSeq].(int64))
	topologytest.Equal(t, "name", "shop/again", message.Headers[deadletter.HeaderRedriveName].(string))
	topologytest.Equal(t, "skips what came back", "CameBack", toMain.Skips(&redriven))
	topologytest.Equal(t, "id", deadletter.Fingerprint(&died), toMain.ID(&died))

	original := judgeFor(func(*move) {})
	route, _, err = original.Copy(&died, 1)
	topologytest.Equal(t, "route to the origin", contract.Route{Exchange: "shop", RoutingKey: "placed"}, route)
	topologytest.Equal(t, "error", nil, err)
	_, _, err = original.Copy(&parked, 1)
	topologytest.Equal(t, "error without an origin", errNoOrigin.Error(), err.Error())

	limited := judgeFor(func(m *move) { m.limited = true })
	topologytest.Equal(t, "leaves nothing in a queue with a delivery limit", "", limited.Skips(&redriven))

	redrive.Spec.Select = &v1alpha1.DeadLetterSelection{Where: "size >"}
	_, err = judgeOf(redrive, from)
	if err == nil {
		t.Error("a selection that does not compile is accepted")
	}
}
