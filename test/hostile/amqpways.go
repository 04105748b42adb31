package hostile

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/test/amqpmethod"
)

// AMQPWays returns ways in which an AMQP server misbehaves, by name.
func AMQPWays() map[string]AMQPWay {
	return map[string]AMQPWay{
		"floods connection.blocked":                            when(amqpmethod.ConnectionOpen, afterwards(floodBlocked)),
		"floods connection.blocked when the client closes":     when(amqpmethod.ConnectionClose, instead(floodBlocked)),
		"answers close between floods of connection.blocked":   when(amqpmethod.ConnectionClose, instead(closeBetweenFloods)),
		"announces a body of 2^62 bytes":                       when(amqpmethod.QueueDeclare, instead(endlessBody)),
		"announces a body of 2^62 bytes to a consumer":         when(amqpmethod.BasicConsume, afterwards(endlessBody)),
		"sends a body of 2^62 bytes in answer to a get":        when(amqpmethod.BasicGet, instead(endlessGet)),
		"sends bodies without a message":                       when(amqpmethod.QueueDeclare, instead(bodiesAlone)),
		"sends deliveries without a consumer":                  when(amqpmethod.QueueDeclare, instead(deliveries(nil))),
		"sends deliveries on a channel that is not open":       when(amqpmethod.QueueDeclare, instead(onChannel(9, deliveries(nil)))),
		"sends more deliveries than the prefetch":              when(amqpmethod.BasicConsume, afterwards(deliveries(nil))),
		"sends deliveries with large headers":                  when(amqpmethod.BasicConsume, afterwards(deliveries(largeTable("V")))),
		"sends deliveries with many small tables":              when(amqpmethod.BasicConsume, afterwards(deliveries(largeTable(oneEntry)))),
		"sends frames that are larger than agreed":             when(amqpmethod.QueueDeclare, instead(largeFrame)),
		"answers a request that was not sent":                  when(amqpmethod.QueueDeclare, afterwards(answersUnasked)),
		"confirms unpublished messages":                        when(amqpmethod.ConfirmSelect, afterwards(confirmsUnasked)),
		"returns unpublished messages":                         when(amqpmethod.ConfirmSelect, afterwards(returnsUnasked)),
		"floods heartbeats":                                    when(amqpmethod.ConnectionOpen, afterwards(floodHeartbeats)),
		"never answers close, and sends heartbeats":            when(amqpmethod.ConnectionClose, instead(slowHeartbeats)),
		"never answers tune, and sends heartbeats":             when(amqpmethod.ConnectionOpen, instead(slowHeartbeats)),
		"never answers, and reads nothing after open":          when(amqpmethod.ConnectionOpen, instead(silence)),
		"never answers a cancel, and sends heartbeats":         when(amqpmethod.BasicCancel, instead(slowHeartbeats)),
		"never answers a new consumer, and sends heartbeats":   when(amqpmethod.BasicConsume, instead(slowHeartbeats)),
		"repeats markers":                                      when(amqpmethod.BasicConsume, repeatMarkers),
		"sends events as fast as they are acknowledged":        when(amqpmethod.BasicConsume, afterwards(eventsEndlessly)),
		"closes each connection as soon as it is open":         when(amqpmethod.ChannelOpen, instead(cut)),
		"claims to have consumed, and cancels again and again": when(amqpmethod.BasicConsume, afterwards(cancelEndlessly)),
		"switches the flow on and off":                         when(amqpmethod.ChannelOpen, afterwards(flowEndlessly)),
	}
}

// when misbehaves on one method.
func when(method amqpmethod.Method, do AMQPWay) AMQPWay {
	return func(s *Session, received Received) bool { return received.Method == method && do(s, received) }
}

// instead does something repeatedly instead of a response; afterwards does it after the response.
func instead(do func(s *Session, channel uint16) func() bool) AMQPWay {
	return func(s *Session, received Received) bool {
		s.Aside(do(s, received.Channel))
		return true
	}
}

func afterwards(do func(s *Session, channel uint16) func() bool) AMQPWay {
	return func(s *Session, received Received) bool {
		s.Answer(received)
		s.Aside(do(s, received.Channel))
		return true
	}
}

func onChannel(number uint16, do func(s *Session, channel uint16) func() bool) func(*Session, uint16) func() bool {
	return func(s *Session, _ uint16) func() bool { return do(s, number) }
}

// floodBlocked sends a hundred notifications at a time, which fills the library's buffer.
func floodBlocked(s *Session, _ uint16) func() bool {
	flood := bytes.Repeat(frame(frameMethod, 0, payload(amqpmethod.ConnectionBlocked, "memory")), 100)
	return func() bool { return s.write(flood) }
}

func closeBetweenFloods(s *Session, _ uint16) func() bool {
	flood := bytes.Repeat(frame(frameMethod, 0, payload(amqpmethod.ConnectionBlocked, "memory")), 100)
	flood = slices.Concat(flood, frame(frameMethod, 0, payload(amqpmethod.ConnectionCloseOK)), flood)
	return func() bool { return s.write(flood) }
}

// content returns a method that carries a message, and the header of the message.
func content(channel uint16, method []byte, size uint64, headers []byte) []byte {
	header := payload(uint16(60), uint16(0), size, uint16(0))
	if headers != nil {
		header = slices.Concat(payload(uint16(60), uint16(0), size, uint16(1<<13)), headers)
	}
	return slices.Concat(frame(frameMethod, channel, method), frame(frameHeader, channel, header))
}

// delivery returns a basic.deliver with a delivery tag.
func delivery(number uint64, key string) []byte {
	return payload(amqpmethod.BasicDeliver, "ctag-1", number, byte(0), "", key)
}

// endlessBody delivers a message whose body never ends.
func endlessBody(s *Session, channel uint16) func() bool {
	s.write(content(channel, delivery(1, ""), 1<<62, nil))
	return bodiesAlone(s, channel)
}

func endlessGet(s *Session, channel uint16) func() bool {
	s.write(content(channel, payload(amqpmethod.BasicGetOK, uint64(1), byte(0), "", "", uint32(0)), 1<<62, nil))
	return bodiesAlone(s, channel)
}

func bodiesAlone(s *Session, channel uint16) func() bool {
	body := frame(frameBody, channel, make([]byte, 131072-8))
	return func() bool { return s.write(body) }
}

// deliveries sends messages without waiting for acks.
func deliveries(headers []byte) func(*Session, uint16) func() bool {
	return func(s *Session, channel uint16) func() bool {
		number := uint64(0)
		return func() bool {
			var many []byte
			for len(many) < 64<<10 {
				number++
				many = append(many, content(channel, delivery(number, "queue.created"), 0, headers)...)
			}
			return s.write(many)
		}
	}
}

// oneEntry is a table with one entry, which takes 350 bytes in memory.
const oneEntry = "F\x00\x00\x00\x02\x00V"

// largeTable returns a table of arrays with one element again and again. An empty element is one byte, and becomes sixteen in memory.
func largeTable(element string) []byte {
	var table []byte
	for key := byte('a'); key < 'o'; key++ {
		table = slices.Concat(table, payload(string(key)), []byte{'A'}, payload(long(strings.Repeat(element, 8192/len(element)))))
	}
	return payload(long(table))
}

// largeFrame sends frames of 64 MiB.
func largeFrame(s *Session, channel uint16) func() bool {
	part := make([]byte, 1<<20)
	return func() bool {
		sent := s.write(payload(byte(frameMethod), channel, uint32(64<<20)))
		for range 64 {
			sent = sent && s.write(part)
		}
		return sent && s.write([]byte{frameEnd})
	}
}

func answersUnasked(s *Session, channel uint16) func() bool {
	return func() bool { return s.Send(channel, amqpmethod.QueueDeclareOK, "", uint32(0), uint32(0)) }
}

// confirmsUnasked confirms all messages up to an impossible number.
func confirmsUnasked(s *Session, channel uint16) func() bool {
	return func() bool { return s.Send(channel, amqpmethod.BasicAck, uint64(math.MaxUint64-1), byte(1)) }
}

func returnsUnasked(s *Session, channel uint16) func() bool {
	one := content(channel, payload(amqpmethod.BasicReturn, uint16(312), "NO_ROUTE", "", "nowhere"), 0, largeTable(oneEntry))
	return func() bool { return s.write(one) }
}

func floodHeartbeats(s *Session, _ uint16) func() bool {
	flood := bytes.Repeat(frame(frameHeartbeat, 0, nil), 1000)
	return func() bool { return s.write(flood) }
}

// slowHeartbeats sends heartbeats but responds to nothing else.
func slowHeartbeats(s *Session, _ uint16) func() bool {
	return func() bool {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-s.ended:
		case <-s.server.ends:
		}
		return s.write(frame(frameHeartbeat, 0, nil))
	}
}

func silence(s *Session, _ uint16) func() bool {
	return func() bool {
		select {
		case <-s.ended:
		case <-s.server.ends:
		}
		return false
	}
}

func cut(s *Session, _ uint16) func() bool {
	return func() bool { return s.line.Close() != nil }
}

func cancelEndlessly(s *Session, channel uint16) func() bool {
	return func() bool { return s.Send(channel, amqpmethod.BasicCancel, "ctag-1", byte(0)) }
}

func flowEndlessly(s *Session, channel uint16) func() bool {
	return func() bool {
		return s.Send(channel, amqpmethod.ChannelFlow, byte(0)) && s.Send(channel, amqpmethod.ChannelFlow, byte(1))
	}
}

// event returns the event for a binding of the event exchange to itself, which Warren uses as a marker.
func event(channel uint16, number uint64, key string) []byte {
	headers := payload(map[string]string{"source_name": "amq.rabbitmq.event", "routing_key": key})
	return content(channel, delivery(number, "binding.created"), 0, headers)
}

// repeatMarkers sends three markers that Warren has not sent. The queue's name follows two reserved bytes.
func repeatMarkers(s *Session, received Received) bool {
	s.Answer(received)
	marker := string(received.Arguments[3:3+received.Arguments[2]]) + ".1"
	for number := range uint64(3) {
		s.write(event(received.Channel, number+1, marker))
	}
	return true
}

// eventsEndlessly sends events as fast as the client acks them, a hundred at a time.
func eventsEndlessly(s *Session, channel uint16) func() bool {
	const ahead = 100
	sent, acked := uint64(0), uint64(0)
	return func() bool {
		var events []byte
		for ; sent < acked+ahead; sent++ {
			events = append(events, event(channel, sent+1, "a")...)
		}
		if !s.write(events) {
			return false
		}
		select {
		case acked = <-s.acks:
		case <-s.ended:
		case <-s.server.ends:
		}
		return true
	}
}
