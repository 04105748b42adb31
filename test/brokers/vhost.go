package brokers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// VHost is a vhost. Its methods fail the test on an error.
type VHost struct {
	Broker Broker
	Name   string

	tb TB
}

// VHost returns the vhost with a name. It neither creates nor deletes the vhost.
func (b Broker) VHost(tb TB, name string) *VHost { return &VHost{Broker: b, Name: name, tb: tb} }

// NewVHost creates a vhost with a random name, and deletes it when the test ends.
func (b Broker) NewVHost(tb TB) *VHost {
	tb.Helper()
	return b.NewVHostNamed(tb, "test vhost ")
}

// NewVHostNamed creates a vhost whose name is prefix and a random suffix, and deletes it when the test ends.
func (b Broker) NewVHostNamed(tb TB, prefix string) *VHost {
	tb.Helper()
	v := b.VHost(tb, prefix+random())
	tb.Cleanup(v.Delete)
	v.Create()
	return v
}

// Create creates the vhost again after Delete.
func (v *VHost) Create() {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPut, nil, "vhosts", v.Name)
	v.Grant(User{Username: v.Broker.Username}, ".*", ".*", ".*")
}

// At creates a vhost with the same name at another broker, and deletes it when the test ends.
func (v *VHost) At(broker Broker) *VHost {
	v.tb.Helper()
	other := broker.VHost(v.tb, v.Name)
	v.tb.Cleanup(other.Delete)
	other.Create()
	return other
}

// Through returns the same vhost, accessed through another node of the cluster.
func (v *VHost) Through(node Broker) *VHost { return node.VHost(v.tb, v.Name) }

// Delete deletes the vhost with all its objects. First it makes the declaration of further queues fail. A queue that is declared
// while its vhost is being deleted can end the broker's supervisor of dead-letter workers (rabbit_fifo_dlx_sup). Then every
// declaration of a queue that dead-letters at least once fails, in all vhosts and all tests.
func (v *VHost) Delete() {
	v.tb.Helper()
	v.Limit("max-queues", 0)
	v.Broker.call(v.tb, http.MethodDelete, nil, "vhosts", v.Name)
}

// Limit sets a limit of the vhost: max-queues or max-connections.
func (v *VHost) Limit(name string, value int) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPut, map[string]int{"value": value}, "vhost-limits", v.Name, name)
}

// Grant grants a user permissions on the objects with matching names.
func (v *VHost) Grant(user User, configure, write, read string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPut, map[string]any{"configure": configure, "write": write, "read": read},
		"permissions", v.Name, user.Username)
}

// Exchange is an exchange in definitions.
type Exchange struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
}

// Queue is a queue in definitions. Integers in its arguments are float64, because encoding/json decodes them so.
type Queue struct {
	Name       string         `json:"name"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Arguments  map[string]any `json:"arguments"`
}

// Binding is a binding in definitions.
type Binding struct {
	Source          string         `json:"source"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"`
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"`
}

// Definitions are all objects of a vhost, sorted. RabbitMQ's own exchanges, amq.* and the default exchange, are left out.
type Definitions struct {
	Exchanges []Exchange `json:"exchanges"`
	Queues    []Queue    `json:"queues"`
	Bindings  []Binding  `json:"bindings"`
}

// Definitions returns the current objects of the vhost, whose name must be ASCII: RabbitMQ 4.0 to 4.3 cannot export others.
func (v *VHost) Definitions() Definitions {
	v.tb.Helper()
	var definitions Definitions
	v.Broker.get(v.tb, &definitions, "definitions", v.Name)
	slices.SortFunc(definitions.Exchanges, func(a, b Exchange) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(definitions.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(definitions.Bindings, func(a, b Binding) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination),
			cmp.Compare(a.DestinationType, b.DestinationType), cmp.Compare(a.RoutingKey, b.RoutingKey),
			cmp.Compare(arguments(a), arguments(b)))
	})
	return definitions
}

func arguments(binding Binding) string {
	text, _ := json.Marshal(binding.Arguments) // decoded from JSON
	return string(text)
}

// DeclareExchange declares a durable exchange.
func (v *VHost) DeclareExchange(name, kind string, arguments map[string]any) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, false, false, arguments)
	})
}

// DeclareQueue declares a durable queue. Tables in the arguments must be amqp.Table.
func (v *VHost) DeclareQueue(name string, arguments map[string]any) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, arguments)
		return err
	})
}

// Bind binds a queue to an exchange.
func (v *VHost) Bind(exchange, queue, routingKey string, arguments map[string]any) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error { return ch.QueueBind(queue, routingKey, exchange, false, arguments) })
}

// BindExchange binds the exchange destination to the exchange source.
func (v *VHost) BindExchange(source, destination, routingKey string, arguments map[string]any) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error {
		return ch.ExchangeBind(destination, routingKey, source, false, arguments)
	})
}

// Unbind removes a binding of a queue.
func (v *VHost) Unbind(exchange, queue, routingKey string, arguments map[string]any) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error { return ch.QueueUnbind(queue, routingKey, exchange, arguments) })
}

// DeleteQueue deletes a queue with its messages and bindings.
func (v *VHost) DeleteQueue(name string) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
}

// DeleteExchange deletes an exchange with its bindings.
func (v *VHost) DeleteExchange(name string) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) })
}

// Policy is a policy to set.
type Policy struct {
	Pattern    string         `json:"pattern"`
	Definition map[string]any `json:"definition"`
	ApplyTo    string         `json:"apply-to"`
	Priority   float64        `json:"priority"`
}

// SetPolicy creates or replaces a policy.
func (v *VHost) SetPolicy(name string, policy Policy) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPut, policy, "policies", v.Name, name)
}

// SetOperatorPolicy creates or replaces an operator policy.
func (v *VHost) SetOperatorPolicy(name string, policy Policy) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPut, policy, "operator-policies", v.Name, name)
}

// DeletePolicy deletes a policy.
func (v *VHost) DeletePolicy(name string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodDelete, nil, "policies", v.Name, name)
}

// DeleteOperatorPolicy deletes an operator policy.
func (v *VHost) DeleteOperatorPolicy(name string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodDelete, nil, "operator-policies", v.Name, name)
}

// SetParameter creates or replaces a runtime parameter of a plugin, such as a shovel.
func (v *VHost) SetParameter(component, name string, value map[string]any) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPut, map[string]any{"value": value}, "parameters", component, v.Name, name)
}

// DeleteParameter deletes a runtime parameter.
func (v *VHost) DeleteParameter(component, name string) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodDelete, nil, "parameters", component, v.Name, name)
}

// Publish publishes persistent messages with these bodies and waits until the broker has confirmed all of them.
func (v *VHost) Publish(exchange, routingKey string, bodies ...string) {
	v.tb.Helper()
	messages := make([]amqp.Publishing, len(bodies))
	for i, body := range bodies {
		messages[i] = amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
	}
	v.Send(exchange, routingKey, messages...)
}

// Send publishes messages and waits until the broker has confirmed all of them.
func (v *VHost) Send(exchange, routingKey string, messages ...amqp.Publishing) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		var confirmations []*amqp.DeferredConfirmation
		for _, message := range messages {
			confirmation, err := ch.PublishWithDeferredConfirm(exchange, routingKey, false, false, message)
			if err != nil {
				return err
			}
			confirmations = append(confirmations, confirmation)
		}
		ctx, cancel := context.WithTimeout(v.tb.Context(), time.Minute)
		defer cancel()
		for i, confirmation := range confirmations {
			confirmed, err := confirmation.WaitContext(ctx)
			if err != nil {
				return err
			}
			if !confirmed {
				v.tb.Fatalf("publish to %q: message %d was not confirmed", exchange, i+1)
			}
		}
		return nil
	})
}

// Purge deletes the ready messages of a queue.
func (v *VHost) Purge(queue string) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(queue, false)
		return err
	})
}

// stall is the time after which RabbitMQ stops asking a quorum queue for its messages, and answers that the queue is empty.
const stall = 250 * time.Millisecond

// Ready returns the number of ready messages in a queue. It is exact after a publisher has received its confirms, and after a
// purge. It lags behind every other change: a requeue, a closed channel, a dead letter, an expiry, an ack. So tests must poll it.
func (v *VHost) Ready(queue string) int {
	v.tb.Helper()
	return v.counted(queue).Messages
}

// CountedConsumers returns the number of consumers of a queue. A channel that has ended counts as a consumer until the queue has its
// messages back.
func (v *VHost) CountedConsumers(queue string) int {
	v.tb.Helper()
	return v.counted(queue).Consumers
}

func (v *VHost) counted(queue string) (declared amqp.Queue) {
	v.tb.Helper()
	v.amqp(func(ch *amqp.Channel) (err error) {
		Persist(func() bool {
			asked := time.Now()
			declared, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			return err != nil || declared.Messages+declared.Consumers > 0 || time.Since(asked) < stall
		})
		return err
	})
	return declared
}

// Held returns the number of dead letters that queues of the vhost retain until they are routed, during which no consumer
// receives them. The number is some seconds old.
func (v *VHost) Held() int {
	v.tb.Helper()
	var queues []struct {
		Messages       int `json:"messages"`
		Ready          int `json:"messages_ready"`
		Unacknowledged int `json:"messages_unacknowledged"`
	}
	v.Broker.get(v.tb, &queues, "queues", v.Name)
	held := 0
	for _, queue := range queues {
		held += max(queue.Messages-queue.Ready-queue.Unacknowledged, 0)
	}
	return held
}

// Connect opens an AMQP connection to the vhost as the administrator, with a client-provided name.
func (v *VHost) Connect(name string) (*amqp.Connection, error) {
	return amqp.DialConfig(v.Broker.AMQPURI, amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: v.Broker.Username, Password: v.Broker.Password}},
		Vhost: v.Name, Heartbeat: 10 * time.Second, Locale: "en_US", TLSClientConfig: v.Broker.tls.Clone(),
		Properties: amqp.Table{"connection_name": name},
	})
}

// amqp runs a step on a new connection, so that a step that closes its channel or connection does not affect the next one. A busy
// broker starts a vhost late, may drop a handshake, and sometimes answers that it could not start a quorum queue or does not find
// its process. See IsBusy.
func (v *VHost) amqp(step func(*amqp.Channel) error) {
	v.tb.Helper()
	var err error
	Persist(func() bool {
		var connected bool
		connected, err = v.onChannel(step)
		return connected && !IsBusy(err)
	})
	if err != nil {
		v.tb.Fatalf("vhost %q of RabbitMQ %s: %v", v.Name, v.Broker.Version, err)
	}
}

// IsBusy reports whether a busy broker could not start a quorum queue (cluster_not_formed), or did not find the process of one (noproc).
func IsBusy(err error) bool {
	reply, ok := errors.AsType[*amqp.Error](err)
	return ok && reply.Code == amqp.InternalError &&
		(strings.Contains(reply.Reason, "cluster_not_formed") || strings.Contains(reply.Reason, "noproc"))
}

// IsNotFound reports whether the broker refused an operation because a queue or an exchange does not exist.
func IsNotFound(err error) bool {
	reply, ok := errors.AsType[*amqp.Error](err)
	return ok && reply.Code == amqp.NotFound
}

// onChannel runs a step on a channel of a new connection.
func (v *VHost) onChannel(step func(*amqp.Channel) error) (connected bool, err error) {
	connection, err := v.Connect("test")
	if err != nil {
		return false, err
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		return true, err
	}
	return true, step(channel)
}
