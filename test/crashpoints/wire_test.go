package crashpoints

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/test/netfault"
)

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
