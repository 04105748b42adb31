package crashpoints

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/netfault"
)

// kinds are the methods that are effects.
var kinds = map[amqpmethod.Method]string{
	amqpmethod.ExchangeDeclare: "exchange.declare",
	amqpmethod.ExchangeDelete:  "exchange.delete",
	amqpmethod.ExchangeBind:    "exchange.bind",
	amqpmethod.ExchangeUnbind:  "exchange.unbind",
	amqpmethod.QueueDeclare:    "queue.declare",
	amqpmethod.QueueBind:       "queue.bind",
	amqpmethod.QueuePurge:      "queue.purge",
	amqpmethod.QueueDelete:     "queue.delete",
	amqpmethod.QueueUnbind:     "queue.unbind",
	amqpmethod.BasicPublish:    "basic.publish",
	amqpmethod.BasicAck:        "basic.ack",
	amqpmethod.BasicReject:     "basic.reject",
	amqpmethod.BasicNack:       "basic.nack",
}

// completion is how the broker shows that it has completed an effect.
type completion int

const (
	// answered: a method on the same channel answers.
	answered completion = iota
	// confirmed: the broker confirms the message.
	confirmed
	// silent: the broker sends nothing.
	silent
)

// channelID is a channel of one of the manager's connections.
type channelID struct {
	connection int
	channel    uint16
}

// sent is an effect that a client sent.
type sent struct {
	Operation

	method amqpmethod.Method
	at     channelID
	// completion is how to wait for the effect, and tag the number of the message that the broker confirms.
	completion completion
	tag        uint64
}

// isCompletedBy reports whether a frame from the broker shows that the effect is completed. The end of a channel completes it, too.
func (s sent) isCompletedBy(frame netfault.Frame) bool {
	switch {
	case frame.Connection != s.at.connection:
		return false
	case frame.Method == amqpmethod.ConnectionClose:
		return true
	case frame.Channel != s.at.channel:
		return false
	case frame.Method == amqpmethod.ChannelClose:
		return true
	case s.completion == confirmed:
		isConfirm := frame.Method == amqpmethod.BasicAck || frame.Method == amqpmethod.BasicNack
		return isConfirm && len(frame.Arguments) >= 8 && binary.BigEndian.Uint64(frame.Arguments) >= s.tag
	}
	return s.completion == answered && frame.Method == amqpmethod.Method{Class: s.method.Class, ID: s.method.ID + 1}
}

// wire follows the channels of the manager's connections to one broker.
type wire struct {
	// elsewhere are the connections to another vhost. Those carry the markers of the event feed.
	elsewhere map[int]bool
	consumed  map[channelID]string
	// published counts messages on channels with confirms.
	published map[channelID]uint64
}

func newWire() *wire {
	return &wire{elsewhere: map[int]bool{}, consumed: map[channelID]string{}, published: map[channelID]uint64{}}
}

// read returns the effect of a frame that a client sends; false if it has none. vhost is that of the flow.
func (w *wire) read(frame netfault.Frame, vhost string) (sent, bool) {
	at := channelID{frame.Connection, frame.Channel}
	arguments := &reader{rest: frame.Arguments}
	switch frame.Method {
	case amqpmethod.ConnectionOpen:
		w.elsewhere[frame.Connection] = arguments.short() != vhost
	case amqpmethod.ChannelOpen:
		delete(w.published, at)
	case amqpmethod.ConfirmSelect:
		w.published[at] = 0
	case amqpmethod.BasicConsume, amqpmethod.BasicGet:
		arguments.skip(2)
		w.consumed[at] = arguments.short()
	}
	kind, known := kinds[frame.Method]
	if !known || w.elsewhere[frame.Connection] {
		return sent{}, false
	}
	effect := sent{Operation: Operation{Kind: kind}, method: frame.Method, at: at}
	object, isEffect := w.objectOf(&effect, arguments)
	effect.Object = withoutRandomParts(object)
	return effect, isEffect
}

// objectOf decodes the arguments of an effect: it returns the object, and sets how the effect is completed.
func (w *wire) objectOf(effect *sent, arguments *reader) (object string, isEffect bool) {
	if slices.Contains([]amqpmethod.Method{amqpmethod.BasicAck, amqpmethod.BasicReject, amqpmethod.BasicNack}, effect.method) {
		effect.completion = silent
		return w.consumed[effect.at], true
	}
	arguments.skip(2) // reserved
	object = arguments.short()
	const passive = 1
	switch effect.method {
	case amqpmethod.ExchangeDeclare:
		arguments.short() // the type
		return object, arguments.octet()&passive == 0
	case amqpmethod.QueueDeclare:
		return object, arguments.octet()&passive == 0
	case amqpmethod.QueueDelete:
		effect.expectAnswerUnless(arguments.octet()&0b100 != 0)
	case amqpmethod.ExchangeDelete:
		effect.expectAnswerUnless(arguments.octet()&0b10 != 0)
	case amqpmethod.QueueBind, amqpmethod.QueueUnbind, amqpmethod.ExchangeBind, amqpmethod.ExchangeUnbind:
		object = arguments.short() + " -> " + object
		if key := arguments.short(); key != "" {
			object += " " + key
		}
	case amqpmethod.BasicPublish:
		return w.routeOf(effect, object, arguments.short()), true
	}
	return object, true
}

func (s *sent) expectAnswerUnless(noWait bool) {
	if noWait {
		s.completion = silent
	}
}

// routeOf counts a message, and returns the exchange, or the routing key at the default exchange.
func (w *wire) routeOf(effect *sent, exchange, key string) string {
	effect.completion = silent
	if count, confirms := w.published[effect.at]; confirms {
		effect.completion, effect.tag = confirmed, count+1
		w.published[effect.at] = count + 1
	}
	if exchange == "" {
		return key
	}
	return exchange
}

// reader decodes arguments. It returns zero values beyond their end.
type reader struct{ rest []byte }

func (r *reader) skip(count int) { r.rest = r.rest[min(count, len(r.rest)):] }

func (r *reader) octet() byte {
	if len(r.rest) == 0 {
		return 0
	}
	first := r.rest[0]
	r.rest = r.rest[1:]
	return first
}

func (r *reader) short() string {
	length := min(int(r.octet()), len(r.rest))
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}

// encode encodes arguments: strings are short strings, and a byte is itself. Two reserved bytes come first.
func encode(values ...any) []byte {
	encoded := []byte{0, 0}
	for _, value := range values {
		switch value := value.(type) {
		case string:
			encoded = append(append(encoded, byte(len(value))), value...)
		case byte:
			encoded = append(encoded, value)
		}
	}
	return encoded
}

func TestEffectsOfFrames(t *testing.T) {
	t.Parallel()
	const passive, noWaitOfDelete, none = byte(1), byte(4), byte(0)
	for name, test := range map[string]struct {
		method     amqpmethod.Method
		arguments  []byte
		want       string
		completion completion
	}{
		"a declaration":               {amqpmethod.QueueDeclare, encode("orders", none), "queue.declare orders", answered},
		"a passive declaration":       {amqpmethod.QueueDeclare, encode("orders", passive), "", answered},
		"an exchange":                 {amqpmethod.ExchangeDeclare, encode("shop", "topic", none), "exchange.declare shop", answered},
		"a passive exchange":          {amqpmethod.ExchangeDeclare, encode("shop", "topic", passive), "", answered},
		"a deletion":                  {amqpmethod.QueueDelete, encode("orders", none), "queue.delete orders", answered},
		"a deletion without wait":     {amqpmethod.QueueDelete, encode("orders", noWaitOfDelete), "queue.delete orders", silent},
		"an exchange without wait":    {amqpmethod.ExchangeDelete, encode("shop", byte(2)), "exchange.delete shop", silent},
		"a binding":                   {amqpmethod.QueueBind, encode("orders", "shop", "order.paid"), "queue.bind shop -> orders order.paid", answered},
		"a binding without a key":     {amqpmethod.QueueUnbind, encode("orders", "back", ""), "queue.unbind back -> orders", answered},
		"a message by name":           {amqpmethod.BasicPublish, encode("", "orders"), "basic.publish orders", confirmed},
		"a message to an exchange":    {amqpmethod.BasicPublish, encode("shop", "order.paid"), "basic.publish shop", confirmed},
		"an acknowledgement":          {amqpmethod.BasicAck, make([]byte, 9), "basic.ack orders.dlq", silent},
		"a negative acknowledgement":  {amqpmethod.BasicNack, make([]byte, 9), "basic.nack orders.dlq", silent},
		"another method":              {amqpmethod.Method{Class: 60, ID: 10}, encode(), "", answered},
		"a declaration that is cut":   {amqpmethod.QueueDeclare, []byte{0, 0, 200, 'o'}, "queue.declare o", answered},
		"a declaration with no bytes": {amqpmethod.QueueDeclare, nil, "queue.declare ", answered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire()
			frame := netfault.Frame{Connection: 1, Channel: 2}
			for method, arguments := range map[amqpmethod.Method][]byte{
				amqpmethod.ConnectionOpen: encode("shop")[2:], amqpmethod.ConfirmSelect: {0}, amqpmethod.BasicConsume: encode("orders.dlq", ""),
			} {
				frame.Method, frame.Arguments = method, arguments
				w.read(frame, "shop")
			}
			frame.Method, frame.Arguments = test.method, test.arguments
			effect, isEffect := w.read(frame, "shop")
			if diff := cmp.Diff(test.want, text(effect.Operation, isEffect)); diff != "" {
				t.Error(diff)
			}
			if effect.completion != test.completion {
				t.Errorf("completion %d, want %d", effect.completion, test.completion)
			}
		})
	}
}

func TestConnectionsToAnotherVHostHaveNoEffects(t *testing.T) {
	t.Parallel()
	w := newWire()
	w.read(netfault.Frame{Method: amqpmethod.ConnectionOpen, Connection: 1, Arguments: encode("/")[2:]}, "shop")
	effect, isEffect := w.read(netfault.Frame{Method: amqpmethod.QueueBind, Connection: 1, Arguments: encode("a", "b", "c")}, "shop")
	if isEffect {
		t.Errorf("it is the effect %v", effect.Operation)
	}
}

func TestCompletionOfEffects(t *testing.T) {
	t.Parallel()
	const connection, channel = 3, 2
	at := channelID{connection, channel}
	declared := sent{method: amqpmethod.QueueDeclare, at: at, completion: answered}
	published := sent{method: amqpmethod.BasicPublish, at: at, completion: confirmed, tag: 5}
	tag := func(number byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, number, 0} }
	frame := func(method amqpmethod.Method, arguments ...byte) netfault.Frame {
		return netfault.Frame{Method: method, Connection: connection, Channel: channel, FromBroker: true, Arguments: arguments}
	}
	elsewhere := frame(amqpmethod.QueueDeclareOK)
	elsewhere.Channel++
	otherConnection := frame(amqpmethod.QueueDeclareOK)
	otherConnection.Connection++
	for name, test := range map[string]struct {
		effect sent
		frame  netfault.Frame
		want   bool
	}{
		"its answer":                {declared, frame(amqpmethod.QueueDeclareOK), true},
		"another answer":            {declared, frame(amqpmethod.BasicDeliver), false},
		"an answer on a channel":    {declared, elsewhere, false},
		"an answer on a connection": {declared, otherConnection, false},
		"the end of the channel":    {declared, frame(amqpmethod.ChannelClose), true},
		"the end of the connection": {declared, netfault.Frame{Method: amqpmethod.ConnectionClose, Connection: connection}, true},
		"its confirm":               {published, frame(amqpmethod.BasicAck, tag(5)...), true},
		"a later confirm":           {published, frame(amqpmethod.BasicAck, tag(6)...), true},
		"an earlier confirm":        {published, frame(amqpmethod.BasicAck, tag(4)...), false},
		"its refusal":               {published, frame(amqpmethod.BasicNack, tag(5)...), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.effect.isCompletedBy(test.frame); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
