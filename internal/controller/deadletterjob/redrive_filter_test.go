package deadletterjob

import (
	"cmp"
	"maps"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// moveOf returns a Move from orders.dlq at a broker, without a destination.
func moveOf(broker *brokerstest.Broker) Move {
	return Move{
		Broker: &brokers.Broker{Observer: broker}, Queue: QueueKey{Name: "orders.dlq"}, Details: Details{Source: deadletter.Source{Main: "orders"}},
		RouteQueues: []string{"orders"},
	}
}

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
	from := moveOf(brokerstest.New(vhost.RabbitMQ43, "/", "uid"))
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

// A message is not published if it may reach a queue that would drop another message.
func TestAMessageThatMayReachAQueueThatDropsMessagesIsNotMoved(t *testing.T) {
	t.Parallel()
	const drops = `queue "audit" has x-max-length 5: when the queue is full, it drops its oldest messages`
	toAudit := func(source, key string) vhost.Binding {
		return vhost.Binding{Source: source, Destination: "audit", RoutingKey: key}
	}
	for name, test := range map[string]struct {
		kind, alternate   string // of exchange shop
		alternateByPolicy string // of exchange shop
		bindings          []vhost.Binding
		policy            vhost.Arguments // of audit
		arguments         vhost.Arguments // of audit; x-max-length 5 if nil
		exchange, key     string          // of the message; "shop" and "placed" if empty
		want              string
	}{
		"no further queue is bound":           {kind: "topic"},
		"a queue that drops messages":         {kind: "topic", bindings: []vhost.Binding{toAudit("shop", "placed")}, want: drops},
		"a queue that drops others' messages": {kind: "topic", bindings: []vhost.Binding{toAudit("shop", "paid")}},
		"a queue that refuses messages": {
			kind: "topic", bindings: []vhost.Binding{toAudit("shop", "placed")},
			arguments: vhost.Arguments{vhost.ArgMaxLength: int64(5), vhost.ArgOverflow: vhost.OverflowRejectPublish},
		},
		"a queue that a policy limits": {
			kind: "topic", bindings: []vhost.Binding{toAudit("shop", "#")}, arguments: vhost.Arguments{},
			policy: vhost.Arguments{vhost.KeyMaxLengthBytes: int64(7)},
			want:   `policy "limits" sets max-length-bytes 7 for queue "audit": when the queue is full, it drops its oldest messages`,
		},
		"an exchange that decides by headers": {kind: "headers", bindings: []vhost.Binding{toAudit("shop", "")}, want: drops},
		"a further exchange": {
			kind: "direct", want: drops,
			bindings: []vhost.Binding{{Source: "shop", Destination: "log", RoutingKey: "placed", ToExchange: true}, toAudit("log", "")},
		},
		"an alternate exchange": {kind: "topic", alternate: "log", bindings: []vhost.Binding{toAudit("log", "")}, want: drops},
		"an alternate exchange by a policy": {
			kind: "topic", alternateByPolicy: "log", bindings: []vhost.Binding{toAudit("log", "")}, want: drops,
		},
		"an alternate exchange of an exchange that routes the message": {
			kind: "topic", alternate: "log",
			bindings: []vhost.Binding{toAudit("log", ""), {Source: "shop", Destination: "orders", RoutingKey: "placed"}},
		},
		"the default exchange":                 {kind: "topic", exchange: "default", key: "audit", want: drops},
		"the default exchange, another queue":  {kind: "topic", exchange: "default", key: "archive"},
		"the default exchange, the main queue": {kind: "topic", exchange: "default", key: "orders"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := brokerstest.New(vhost.RabbitMQ43, "/", "uid")
			broker.Change(func(s *snapshot.Snapshot) {
				shop := vhost.Exchange{Type: test.kind}
				if test.alternate != "" {
					shop.Arguments = vhost.Arguments{vhost.ArgAlternateExchange: test.alternate}
				}
				s.PutExchange("shop", shop)
				s.PutExchange("log", vhost.Exchange{Type: "fanout"})
				arguments := maps.Clone(test.arguments)
				if arguments == nil {
					arguments = vhost.Arguments{vhost.ArgMaxLength: int64(5)}
				}
				arguments[vhost.ArgQueueType] = vhost.TypeQuorum
				s.PutQueue("audit", vhost.Queue{Durable: true, Arguments: arguments})
				// The move pauses while the main queue drops messages, so no message fails because of it.
				s.PutQueue("orders", vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgMaxLength: int64(5)}})
				for _, binding := range test.bindings {
					s.PutBinding(binding)
				}
				if test.alternateByPolicy != "" {
					s.Policies = []vhost.Policy{{
						Name: "unrouted", Pattern: vhost.ReadPattern("^shop$"), ApplyTo: "exchanges",
						Definition: vhost.Arguments{vhost.ArgAlternateExchange: test.alternateByPolicy},
					}}
				}
				if test.policy != nil {
					s.Policies = []vhost.Policy{{Name: "limits", Pattern: vhost.ReadPattern("^audit$"), ApplyTo: "queues", Definition: test.policy}}
				}
			})
			filter, wrong := newRedriveFilter(redriveOf("again", 1, nil), moveOf(broker))
			if wrong != nil {
				t.Fatal(wrong)
			}
			exchange := cmp.Or(test.exchange, "shop")
			if exchange == "default" {
				exchange = ""
			}
			message := amqp.Delivery{Headers: amqp.Table{
				contract.HeaderOriginalExchange: exchange, contract.HeaderOriginalRoutingKey: cmp.Or(test.key, "placed"),
			}}
			_, _, err := filter.Copy(&message, 1)
			got := ""
			if err != nil {
				got = err.Error()
			}
			topologytest.Equal(t, "error", test.want, got)
		})
	}
}
