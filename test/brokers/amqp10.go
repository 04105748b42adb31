package brokers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// AMQP10 is a message of AMQP 1.0. RabbitMQ 4.0 and later accept more in it than AMQP 0-9-1 can express.
type AMQP10 struct {
	ReplyTo string
	// Properties are application properties. Their values are strings or UUIDs.
	Properties map[string]any
	Body       string
}

// UUID is a type that AMQP 0-9-1 does not have.
type UUID [16]byte

// KnowsAMQP10 reports whether the broker accepts AMQP 1.0 without a plugin, as RabbitMQ 4.0 and later do.
func (b Broker) KnowsAMQP10() bool { return !strings.HasPrefix(b.Version, "3.") }

// SendAMQP10 publishes messages to a queue over AMQP 1.0 and waits until the broker has accepted all of them.
func (v *VHost) SendAMQP10(queue string, messages ...AMQP10) {
	v.tb.Helper()
	uri, err := url.Parse(v.Broker.AMQPURI)
	if err != nil {
		v.tb.Fatal(err)
	}
	connection, err := net.Dial("tcp", uri.Host)
	if err != nil {
		v.tb.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		v.tb.Fatal(err)
	}
	link := &amqp10{connection}
	if err := link.open(v, queue); err != nil {
		v.tb.Fatalf("send over AMQP 1.0 to %q: %v", queue, err)
	}
	for i := range messages {
		if err := link.send(uint32(i), messages[i]); err != nil {
			v.tb.Fatalf("send over AMQP 1.0 to %q: message %d: %v", queue, i+1, err)
		}
	}
}

// amqp10 is an AMQP 1.0 connection with one session and one link. See parts 2 and 5 of the specification.
type amqp10 struct{ net.Conn }

// Frames and other types of AMQP 1.0, by their descriptors.
const (
	open10, begin10, attach10, flow10, transfer10, disposition10 = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15

	accepted10, source10, target10                        = 0x24, 0x28, 0x29
	saslMechanisms10, saslInit10, saslOutcome10           = 0x40, 0x41, 0x44
	properties10, applicationProperties10, data10, null10 = 0x73, 0x74, 0x75, 0x40
)

// open logs in and opens a link to a queue.
func (l *amqp10) open(v *VHost, queue string) error {
	const sasl, plain = 3, 0
	steps := []func() error{
		func() error { return l.greet(sasl) },
		func() error { return l.await(saslMechanisms10) },
		func() error {
			login := "\x00" + v.Broker.Username + "\x00" + v.Broker.Password
			return l.write(1, described10(saslInit10, list10(sized10(0xb3, "PLAIN"), sized10(0xb0, login))))
		},
		func() error { return l.await(saslOutcome10) },
		func() error { return l.greet(plain) },
		func() error {
			return l.write(0, described10(open10, list10(text10("warren-test"), text10("vhost:"+v.Name))))
		},
		func() error { return l.await(open10) },
		func() error {
			const window = 100
			return l.write(0, described10(begin10, list10([]byte{null10}, number10(0), number10(window), number10(window))))
		},
		func() error { return l.await(begin10) },
		func() error {
			const sender, unsettled = 0x42, 0
			from := described10(source10, list10())
			to := described10(target10, list10(text10("/queues/"+url.PathEscape(queue))))
			return l.write(0, described10(attach10, list10(
				text10("link"), number10(0), []byte{sender}, []byte{0x50, unsettled}, []byte{0x50, 0}, from, to,
				[]byte{null10}, []byte{null10}, number10(0))))
		},
		func() error { return l.await(flow10) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// send publishes a message and waits until the broker has accepted it.
func (l *amqp10) send(number uint32, message AMQP10) error {
	const notSettled = 0x42
	fields := make([][]byte, 0, 2*len(message.Properties))
	for _, name := range slices.Sorted(maps.Keys(message.Properties)) {
		value, isUUID := message.Properties[name].(UUID)
		encoded := slices.Concat([]byte{0x98}, value[:])
		if !isUUID {
			encoded = text10(message.Properties[name].(string))
		}
		fields = append(fields, text10(name), encoded)
	}
	null := []byte{null10}
	replyTo := null
	if message.ReplyTo != "" {
		replyTo = text10(message.ReplyTo)
	}
	return l.deliver(slices.Concat(
		described10(transfer10, list10(number10(0), number10(number), sized10(0xb0, fmt.Sprint(number)), number10(0), []byte{notSettled})),
		described10(properties10, list10(null, null, null, null, replyTo)),
		described10(applicationProperties10, compound10(0xd1, fields)),
		described10(data10, sized10(0xb0, message.Body)),
	))
}

func (l *amqp10) deliver(transfer []byte) error {
	if err := l.write(0, transfer); err != nil {
		return err
	}
	answer, err := l.next(disposition10)
	if err == nil && !bytes.Contains(answer, described10(accepted10, nil)) {
		err = fmt.Errorf("not accepted: %q", answer)
	}
	return err
}

// greet exchanges protocol headers.
func (l *amqp10) greet(protocol byte) error {
	header := []byte{'A', 'M', 'Q', 'P', protocol, 1, 0, 0}
	if _, err := l.Write(header); err != nil {
		return err
	}
	answer := make([]byte, len(header))
	if _, err := io.ReadFull(l, answer); err != nil {
		return err
	}
	if !bytes.Equal(answer, header) {
		return fmt.Errorf("the broker speaks another protocol: %q", answer)
	}
	return nil
}

// write sends a frame.
func (l *amqp10) write(kind byte, body []byte) error {
	const header, words = 8, 2
	frame := binary.BigEndian.AppendUint32(nil, uint32(header+len(body)))
	_, err := l.Write(slices.Concat(frame, []byte{words, kind, 0, 0}, body))
	return err
}

// await reads frames up to one of a kind.
func (l *amqp10) await(descriptor byte) error {
	_, err := l.next(descriptor)
	return err
}

// next is await, and returns the body of the frame.
func (l *amqp10) next(descriptor byte) ([]byte, error) {
	var seen []string
	for {
		var header [8]byte
		if _, err := io.ReadFull(l, header[:]); err != nil {
			return nil, fmt.Errorf("%w after %s", err, strings.Join(seen, ", "))
		}
		body := make([]byte, binary.BigEndian.Uint32(header[:])-uint32(len(header)))
		if _, err := io.ReadFull(l, body); err != nil {
			return nil, err
		}
		if bytes.HasPrefix(body, described10(descriptor, nil)) {
			return body, nil
		}
		seen = append(seen, fmt.Sprintf("%q", body))
	}
}

func described10(descriptor byte, value []byte) []byte {
	const smallNumber = 0x53
	return append([]byte{0, smallNumber, descriptor}, value...)
}

func list10(items ...[]byte) []byte { return compound10(0xd0, items) }

// compound10 encodes a list or a map.
func compound10(kind byte, items [][]byte) []byte {
	content := binary.BigEndian.AppendUint32(nil, uint32(len(items)))
	return sized10(kind, string(slices.Concat(append([][]byte{content}, items...)...)))
}

func text10(value string) []byte { return sized10(0xb1, value) }

// sized10 encodes a value that begins with its size, such as a string or a symbol.
func sized10(kind byte, content string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content))), content...)
}

func number10(value uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0x70}, value) }
