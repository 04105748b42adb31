package crashpoints

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/test/netfault"
)

// Methods of AMQP 0-9-1 that are no effects. The wire follows them.
var (
	connectionOpen  = netfault.Method{Class: 10, Method: 40}
	connectionClose = netfault.Method{Class: 10, Method: 50}
	channelOpen     = netfault.Method{Class: 20, Method: 10}
	channelClose    = netfault.Method{Class: 20, Method: 40}
	basicConsume    = netfault.Method{Class: 60, Method: 20}
	basicGet        = netfault.Method{Class: 60, Method: 70}
	confirmSelect   = netfault.Method{Class: 85, Method: 10}
)

// Methods of AMQP 0-9-1 that are effects.
var (
	exchangeDeclare = netfault.Method{Class: 40, Method: 10}
	exchangeDelete  = netfault.Method{Class: 40, Method: 20}
	exchangeBind    = netfault.Method{Class: 40, Method: 30}
	exchangeUnbind  = netfault.Method{Class: 40, Method: 40}
	queueDeclare    = netfault.Method{Class: 50, Method: 10}
	queueBind       = netfault.Method{Class: 50, Method: 20}
	queuePurge      = netfault.Method{Class: 50, Method: 30}
	queueDelete     = netfault.Method{Class: 50, Method: 40}
	queueUnbind     = netfault.Method{Class: 50, Method: 50}
	basicPublish    = netfault.Method{Class: 60, Method: 40}
	basicAck        = netfault.Method{Class: 60, Method: 80}
	basicReject     = netfault.Method{Class: 60, Method: 90}
	basicNack       = netfault.Method{Class: 60, Method: 120}
)

var kinds = map[netfault.Method]string{
	exchangeDeclare: "exchange.declare", exchangeDelete: "exchange.delete", exchangeBind: "exchange.bind",
	exchangeUnbind: "exchange.unbind", queueDeclare: "queue.declare", queueBind: "queue.bind", queuePurge: "queue.purge",
	queueDelete: "queue.delete", queueUnbind: "queue.unbind", basicPublish: "basic.publish", basicAck: "basic.ack",
	basicReject: "basic.reject", basicNack: "basic.nack",
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

	method netfault.Method
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
	case frame.Method == connectionClose:
		return true
	case frame.Channel != s.at.channel:
		return false
	case frame.Method == channelClose:
		return true
	case s.completion == confirmed:
		isConfirm := frame.Method == basicAck || frame.Method == basicNack
		return isConfirm && len(frame.Arguments) >= 8 && binary.BigEndian.Uint64(frame.Arguments) >= s.tag
	}
	return s.completion == answered && frame.Method == netfault.Method{Class: s.method.Class, Method: s.method.Method + 1}
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
	case connectionOpen:
		w.elsewhere[frame.Connection] = arguments.short() != vhost
	case channelOpen:
		delete(w.published, at)
	case confirmSelect:
		w.published[at] = 0
	case basicConsume, basicGet:
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
	if slices.Contains([]netfault.Method{basicAck, basicReject, basicNack}, effect.method) {
		effect.completion = silent
		return w.consumed[effect.at], true
	}
	arguments.skip(2) // reserved
	object = arguments.short()
	const passive = 1
	switch effect.method {
	case exchangeDeclare:
		arguments.short() // the type
		return object, arguments.octet()&passive == 0
	case queueDeclare:
		return object, arguments.octet()&passive == 0
	case queueDelete:
		effect.expectAnswerUnless(arguments.octet()&0b100 != 0)
	case exchangeDelete:
		effect.expectAnswerUnless(arguments.octet()&0b10 != 0)
	case queueBind, queueUnbind, exchangeBind, exchangeUnbind:
		object = arguments.short() + " -> " + object
		if key := arguments.short(); key != "" {
			object += " " + key
		}
	case basicPublish:
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
		method     netfault.Method
		arguments  []byte
		want       string
		completion completion
	}{
		"a declaration":               {queueDeclare, encode("orders", none), "queue.declare orders", answered},
		"a passive declaration":       {queueDeclare, encode("orders", passive), "", answered},
		"an exchange":                 {exchangeDeclare, encode("shop", "topic", none), "exchange.declare shop", answered},
		"a passive exchange":          {exchangeDeclare, encode("shop", "topic", passive), "", answered},
		"a deletion":                  {queueDelete, encode("orders", none), "queue.delete orders", answered},
		"a deletion without wait":     {queueDelete, encode("orders", noWaitOfDelete), "queue.delete orders", silent},
		"an exchange without wait":    {exchangeDelete, encode("shop", byte(2)), "exchange.delete shop", silent},
		"a binding":                   {queueBind, encode("orders", "shop", "order.paid"), "queue.bind shop -> orders order.paid", answered},
		"a binding without a key":     {queueUnbind, encode("orders", "back", ""), "queue.unbind back -> orders", answered},
		"a message by name":           {basicPublish, encode("", "orders"), "basic.publish orders", confirmed},
		"a message to an exchange":    {basicPublish, encode("shop", "order.paid"), "basic.publish shop", confirmed},
		"an acknowledgement":          {basicAck, make([]byte, 9), "basic.ack orders.dlq", silent},
		"a negative acknowledgement":  {basicNack, make([]byte, 9), "basic.nack orders.dlq", silent},
		"another method":              {netfault.Method{Class: 60, Method: 10}, encode(), "", answered},
		"a declaration that is cut":   {queueDeclare, []byte{0, 0, 200, 'o'}, "queue.declare o", answered},
		"a declaration with no bytes": {queueDeclare, nil, "queue.declare ", answered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire()
			frame := netfault.Frame{Connection: 1, Channel: 2}
			for method, arguments := range map[netfault.Method][]byte{
				connectionOpen: encode("shop")[2:], confirmSelect: {0}, basicConsume: encode("orders.dlq", ""),
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
	w.read(netfault.Frame{Method: connectionOpen, Connection: 1, Arguments: encode("/")[2:]}, "shop")
	effect, isEffect := w.read(netfault.Frame{Method: queueBind, Connection: 1, Arguments: encode("a", "b", "c")}, "shop")
	if isEffect {
		t.Errorf("it is the effect %v", effect.Operation)
	}
}

func TestCompletionOfEffects(t *testing.T) {
	t.Parallel()
	const connection, channel = 3, 2
	at := channelID{connection, channel}
	declared := sent{method: queueDeclare, at: at, completion: answered}
	published := sent{method: basicPublish, at: at, completion: confirmed, tag: 5}
	tag := func(number byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, number, 0} }
	frame := func(method netfault.Method, arguments ...byte) netfault.Frame {
		return netfault.Frame{Method: method, Connection: connection, Channel: channel, FromBroker: true, Arguments: arguments}
	}
	elsewhere := frame(netfault.QueueDeclareOK)
	elsewhere.Channel++
	otherConnection := frame(netfault.QueueDeclareOK)
	otherConnection.Connection++
	for name, test := range map[string]struct {
		effect sent
		frame  netfault.Frame
		want   bool
	}{
		"its answer":                {declared, frame(netfault.QueueDeclareOK), true},
		"another answer":            {declared, frame(netfault.BasicDeliver), false},
		"an answer on a channel":    {declared, elsewhere, false},
		"an answer on a connection": {declared, otherConnection, false},
		"the end of the channel":    {declared, frame(channelClose), true},
		"the end of the connection": {declared, netfault.Frame{Method: connectionClose, Connection: connection}, true},
		"its confirm":               {published, frame(basicAck, tag(5)...), true},
		"a later confirm":           {published, frame(basicAck, tag(6)...), true},
		"an earlier confirm":        {published, frame(basicAck, tag(4)...), false},
		"its refusal":               {published, frame(basicNack, tag(5)...), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.effect.isCompletedBy(test.frame); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
