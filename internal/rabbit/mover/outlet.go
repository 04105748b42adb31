package mover

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// SeqHeader is the header with the number of a copy. The number identifies a copy that the broker returns.
const SeqHeader = deadletter.HeaderRedriveSeq

// item is a message that is being moved.
type item struct {
	message amqp.Delivery
	from    *intakeChannel
	// returned is why no queue accepts the copy; empty unless the broker has returned the copy.
	returned string
	// answer is the broker's answer to the copy; nil if the copy was not published. The Ack of a Confirmation must not be used: the AMQP
	// library reports confirms in order, and an ack of several copies overwrites an earlier nack.
	answer interface{ Acked() bool }
	// byExchange reports whether the copy may have reached several queues.
	byExchange bool
}

// outlet publishes copies on a separate channel. If the broker closes that channel because of a message, the channels of the intake remain
// open.
type outlet struct {
	channel *amqp.Channel
	// private is Config.Exchange.
	private  string
	confirms chan amqp.Confirmation
	returns  chan amqp.Return
	closed   chan *amqp.Error
	inFlight map[uint64]*item // by the number of the confirm
	bySeq    map[int64]*item
	seqs     map[uint64]int64
}

// openOutlet opens a channel in confirm mode. The buffers have room for every possible confirm and return, so the reader of the
// connection never waits for the move.
func openOutlet(connection *amqpconn.Conn, private string) (*outlet, error) {
	var channel *amqp.Channel
	err := withinLimit(connection, func() (err error) {
		if channel, err = connection.Connection.Channel(); err != nil {
			return err
		}
		return channel.Confirm(false)
	})
	if err != nil {
		return nil, err
	}
	out := &outlet{
		channel: channel, private: private, inFlight: map[uint64]*item{}, bySeq: map[int64]*item{}, seqs: map[uint64]int64{},
		confirms: channel.NotifyPublish(make(chan amqp.Confirmation, maxWindow)),
		returns:  channel.NotifyReturn(make(chan amqp.Return, maxWindow)),
		closed:   channel.NotifyClose(make(chan *amqp.Error, 1)),
	}
	return out, nil
}

func (out *outlet) publish(moved *item, route contract.Route, message amqp.Publishing, seq int64) error {
	number := out.channel.GetNextPublishSeqNo()
	moved.returned, moved.byExchange, moved.answer = "", route.Exchange != out.private, nil
	out.inFlight[number], out.bySeq[seq], out.seqs[number] = moved, moved, seq
	answer, err := out.channel.PublishWithDeferredConfirm(route.Exchange, route.RoutingKey, true, false, message)
	if err == nil {
		moved.answer = answer
	}
	return err
}

// isAccepted reports whether the broker has confirmed the copy. The broker also confirms a copy that it has returned.
func (i *item) isAccepted() bool { return i.answer != nil && i.answer.Acked() }

// answered removes and returns the item of the copy that the broker has answered. The broker returns a copy before it confirms it, so
// the return has already arrived. answered fails if the broker has returned an unknown message, because an unidentified copy may be
// missing at the destination.
func (out *outlet) answered(number uint64) (*item, error) {
	if err := out.takeReturns(); err != nil {
		return nil, err
	}
	moved := out.inFlight[number]
	delete(out.bySeq, out.seqs[number])
	delete(out.seqs, number)
	delete(out.inFlight, number)
	return moved, nil
}

func (out *outlet) takeReturns() error {
	for {
		select {
		case returned, open := <-out.returns:
			if !open {
				return nil
			}
			seq, _ := returned.Headers[SeqHeader].(int64)
			moved := out.bySeq[seq]
			if moved == nil {
				return ErrUnknownReturn
			}
			moved.returned = returned.ReplyText
		default:
			return nil
		}
	}
}

// frameOverhead is the size of a header frame without strings and headers. It contains the frame's type, channel, size and end; class,
// weight, body size and flags; delivery mode, priority and timestamp. See section 2.3.5.2 of the specification of AMQP 0-9-1.
const frameOverhead = 8 + 14 + 10

// frameHeadroom is how many bytes of a frame a copy must leave free. The broker adds headers when it redelivers or dead-letters the
// message: about 3 KiB with names of maximum length. A message that exceeds the frame ends the connection of each consumer.
const frameHeadroom = 8 << 10

// fits reports whether the properties of a message fit into a frame, with room for headers that the broker adds.
func fits(message amqp.Publishing, frameMax int) bool {
	return frameMax <= 0 || frameSize(message) <= frameMax-min(frameHeadroom, frameMax/2)
}

// frameSize is the maximum size of the frame with the properties of a message, in bytes.
func frameSize(message amqp.Publishing) int {
	size := frameOverhead + amqpconn.EncodedSize(message.Headers)
	for _, text := range []string{
		message.ContentType, message.ContentEncoding, message.CorrelationId, message.ReplyTo, message.MessageId, message.Type,
		message.AppId,
	} {
		size += 1 + len(text)
	}
	return size
}
