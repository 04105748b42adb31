package eventfeed

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// Kind is what happened to an object.
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1
	Deleted
	// PolicyChanged: a policy or operator policy was set or cleared. Only the event of a cleared operator policy shows which of the two.
	PolicyChanged
)

// Change is the content of one event.
type Change struct {
	Kind Kind
	// At is when the object changed, by the clock of the broker.
	At time.Time
	// ID is the object; of a policy, only the name. The arguments of a binding are not in the ID.
	ID vhost.ID
	// Queue or Exchange is the object that was created. Binding is the binding that was created or deleted. Exact reports whether its
	// arguments are known: RabbitMQ sends them as Erlang terms in text form, and not every term can be decoded.
	Exact    bool
	Queue    vhost.Queue
	Exchange vhost.Exchange
	Binding  vhost.Binding
}

// bindingKeys are the names of the events to receive, which are also their routing keys. Setting an operator policy is policy.set (3.10,
// 4.0, 4.3).
var bindingKeys = []string{
	"queue.created", "queue.deleted", "exchange.created", "exchange.deleted",
	"binding.created", "binding.deleted", "policy.set", "policy.cleared", "operator.policy.cleared",
}

// parse decodes an event; false if the event is not about the vhost.
func parse(event amqp.Delivery, vhostName string) (Change, bool) {
	h := headers(event.Headers)
	if h.text("vhost") != vhostName {
		return Change{}, false
	}
	object, action, _ := strings.Cut(event.RoutingKey, ".")
	change := Change{Kind: Created, At: h.time()}
	if action == "deleted" {
		change.Kind = Deleted
	}
	switch object {
	case "queue":
		change.ID = vhost.QueueID(h.text("name"))
		if change.Kind == Created {
			change.Queue, change.Exact = h.queue()
		}
	case "exchange":
		change.ID = vhost.ExchangeID(h.text("name"))
		if change.Kind == Created {
			change.Exchange, change.Exact = h.exchange()
		}
	case "binding":
		change.Binding, change.Exact = h.binding()
		b := change.Binding
		change.ID = vhost.ID{Kind: vhost.KindBinding, Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey}
	case "policy", "operator":
		change.Kind, change.ID = PolicyChanged, vhost.ID{Name: h.text("name")}
	default:
		return Change{}, false
	}
	return change, true
}

type headers amqp.Table

func (h headers) text(key string) string {
	text, _ := h[key].(string)
	return text
}

func (h headers) time() time.Time {
	milliseconds, _ := h["timestamp_in_ms"].(int64)
	return time.UnixMilli(milliseconds)
}

func (h headers) flag(key string) bool {
	set, _ := h[key].(bool)
	return set
}

func (h headers) queue() (vhost.Queue, bool) {
	arguments, exact := parseArguments(h["arguments"])
	kind := strings.TrimSuffix(strings.TrimPrefix(h.text("type"), "rabbit_"), "_queue")
	item := management.QueueItem{
		Type: kind, Durable: h.flag("durable"), AutoDelete: h.flag("auto_delete"), Exclusive: h.flag("exclusive"), Arguments: arguments,
	}
	return item.Observed(), exact
}

func (h headers) exchange() (vhost.Exchange, bool) {
	arguments, exact := parseArguments(h["arguments"])
	item := management.ExchangeItem{
		Type: h.text("type"), Durable: h.flag("durable"), AutoDelete: h.flag("auto_delete"), Internal: h.flag("internal"),
		Arguments: arguments,
	}
	return item.Observed(), exact
}

func (h headers) binding() (vhost.Binding, bool) {
	arguments, exact := parseArguments(h["arguments"])
	item := management.BindingItem{
		Source: h.text("source_name"), Destination: h.text("destination_name"), DestinationType: h.text("destination_kind"),
		RoutingKey: h.text("routing_key"), Arguments: arguments,
	}
	return item.Observed(), exact
}
