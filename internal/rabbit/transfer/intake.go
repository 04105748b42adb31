package transfer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// intake takes messages out of a queue. What stays is held, and counts against the prefetch of its channel; so there is another channel
// when one is full.
type intake struct {
	connection *amqpconn.Conn
	queue      string
	channels   []*intakeChannel // in the order in which they took
	closed     int              // messages that were acknowledged on channels that are closed
	ending     bool             // nothing is to be delivered beyond the prefetch of the current channel
	opened     int              // channels so far
	// fresh says that a message has come that was never delivered before: the queue has no more of those that were given back.
	fresh bool
}

// intakeChannel is a channel with one consumer.
type intakeChannel struct {
	connection *amqpconn.Conn
	channel    *amqp.Channel
	consumer   string // its tag
	deliveries <-chan amqp.Delivery
	prefetch   int
	// last says that the messages that are under way are the last ones of the channel; cancelled, that all of them have come.
	last, cancelled bool
	delivered       uint64
	acknowledged    uint64
	// asked is how many were acknowledged when the broker was asked last, and sure is the same of the time before.
	asked, sure uint64

	held      int    // messages that stay
	firstHeld uint64 // the first of them; zero if there is none
	settled   uint64 // all messages up to this one are acknowledged
	// confirmed are messages after settled that are to be acknowledged.
	confirmed map[uint64]bool
}

// open takes further messages on another channel, and closes those that are not needed any more.
func (in *intake) open(prefetch int) error {
	in.channels = slices.DeleteFunc(in.channels, func(channel *intakeChannel) bool {
		if channel.delivered != channel.acknowledged || in.end(channel) != nil {
			return false
		}
		in.closed += int(channel.acknowledged)
		return true
	})
	channel, err := in.connection.Connection.Channel()
	if errors.Is(err, amqp.ErrChannelMax) {
		return fmt.Errorf("%w: a connection has at most %d channels", ErrTooManyHeld, in.connection.Connection.Config.ChannelMax)
	}
	if err != nil {
		return err
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	in.opened++
	consumer := fmt.Sprint("warren-transfer-", in.opened) // one consumer on each channel
	deliveries, err := channel.Consume(in.queue, consumer, false, false, false, false, nil)
	if err != nil {
		return err
	}
	in.channels = append(in.channels, &intakeChannel{
		connection: in.connection, channel: channel, consumer: consumer, deliveries: deliveries, prefetch: prefetch, last: in.ending,
		confirmed: map[uint64]bool{},
	})
	return nil
}

// capacity is how many messages the broker delivers on all channels before it knows of an acknowledgement, so no more can be unknown to it.
func (in *intake) capacity() (capacity int) {
	for _, channel := range in.channels {
		capacity += channel.prefetch
	}
	return capacity
}

// current is the channel that messages come on.
func (in *intake) current() *intakeChannel { return in.channels[len(in.channels)-1] }

// refill has messages come on another channel where too many are held on the current one, or where another prefetch is wanted. The
// consumer is cancelled when the broker cannot deliver more: RabbitMQ puts a message that is on its way then back at the tail of the
// queue. Until then nothing is acknowledged.
func (in *intake) refill(prefetch int) error {
	current := in.current()
	current.last = current.last || current.prefetch != prefetch || 2*current.held > prefetch
	if !current.last || current.cancelled || !current.isFull() {
		return nil
	}
	return current.cancel()
}

// endFull withholds acknowledgements from now on: each would bring another message.
func (in *intake) endFull() { in.ending, in.current().last = true, true }

// hasEnded says after endFull whether nothing more is delivered.
func (in *intake) hasEnded() bool {
	current := in.current()
	return current.cancelled || current.isFull()
}

// stop ends deliveries, and acknowledges what was confirmed. If the consumer went on, the queue would give that what other channels give
// back.
func (in *intake) stop() error {
	if err := in.endCurrent(); err != nil {
		return err
	}
	err := in.flush(false)
	if in.hasAcknowledged() {
		time.Sleep(quiet) // a queue that has much to do forgets acknowledgements that the end of their channel follows closely
	}
	return err
}

// endCurrent ends deliveries on the current channel, and holds what comes in the meantime. A broker that answers slowly delivers slowly, so
// it is given more time.
func (in *intake) endCurrent() error {
	current := in.current()
	current.last = true
	questions := 0
	idle := time.NewTimer(quiet)
	defer idle.Stop()
	for open := true; open && !current.isFull() && !current.cancelled; {
		select {
		case message, more := <-current.deliveries:
			if open = more; more {
				in.keep(&message)
			}
			idle.Reset(quiet)
		case <-idle.C:
			asked := time.Now()
			if err := in.askOn(current); err != nil {
				return err
			}
			questions++
			open = time.Since(asked) > prompt && questions < mostQuestions
			idle.Reset(quiet)
		}
	}
	if !current.cancelled {
		if err := current.cancel(); err != nil {
			return err
		}
	}
	for message := range current.deliveries {
		in.keep(&message)
	}
	return nil
}

// sweep takes what was given back before and still waits, so that all can be given back in order: a quorum queue has those messages in a
// line of their own, which it delivers first, and adds at its end what is given back. Left says how many messages wait. Each channel takes
// more than the one before, and not many more than there are: those that are taken without need are in the line from then on.
func (in *intake) sweep(left func() (int, error)) error {
	end := time.Now().Add(sweepLimit)
	for prefetch := firstSweep; in.holds() && !in.fresh && time.Now().Before(end); prefetch = min(2*prefetch, maxHeld) {
		waiting, err := left()
		if err != nil || waiting == 0 {
			return err
		}
		if err := in.open(min(prefetch, waiting)); err != nil {
			return err
		}
		if err := in.endCurrent(); err != nil {
			return err
		}
	}
	return nil
}

const (
	// firstSweep is how many messages the first channel of a sweep takes.
	firstSweep = 64
	// sweepLimit is how long a sweep may take. What a queue has beyond loses its place to what is given back.
	sweepLimit = 20 * time.Second
)

// holds says whether there are messages that will be given back.
func (in *intake) holds() bool {
	return slices.ContainsFunc(in.channels, func(channel *intakeChannel) bool { return channel.delivered > channel.acknowledged })
}

func (in *intake) hasAcknowledged() bool {
	return slices.ContainsFunc(in.channels, func(channel *intakeChannel) bool { return channel.acknowledged > 0 })
}

const (
	// quiet is after how long without a message none is on its way, and after how long an acknowledgement has arrived.
	quiet = 100 * time.Millisecond
	// prompt is how long a question takes a broker at most that is neither busy nor far away, of which mostQuestions are asked.
	prompt        = 20 * time.Millisecond
	mostQuestions = 3
)

// isFull says whether the broker cannot deliver more.
func (c *intakeChannel) isFull() bool { return c.delivered-c.acknowledged >= uint64(c.prefetch) }

func (c *intakeChannel) cancel() error {
	c.cancelled = true
	return c.channel.Cancel(c.consumer, false)
}

// took takes note of a message that has come on the current channel.
func (in *intake) took(message *amqp.Delivery) {
	in.current().delivered++
	in.fresh = in.fresh || !message.Redelivered
}

// keep holds a message that nobody has looked at.
func (in *intake) keep(message *amqp.Delivery) {
	in.took(message)
	in.current().hold(message)
}

// flush acknowledges what was confirmed. idle says that no message has come for a while: then the queue has no more, and the current
// channel need not be the last.
func (in *intake) flush(idle bool) error {
	if current := in.current(); idle && !current.cancelled && !in.ending {
		current.last = false
	}
	for _, channel := range in.channels {
		if channel.last && !channel.cancelled {
			continue
		}
		if err := channel.flush(); err != nil {
			return err
		}
	}
	return nil
}

// consumers is how many consumers the broker counts for this intake: whoever holds messages is one.
func (in *intake) consumers() (count int) {
	for _, channel := range in.channels {
		if !channel.cancelled || channel.delivered > channel.acknowledged {
			count++
		}
	}
	return count
}

// end closes a channel. The broker has taken note of every acknowledgement when it answers a question on the same channel; an
// acknowledgement right before the end of a channel can be forgotten.
func (in *intake) end(channel *intakeChannel) error {
	err := in.askOn(channel)
	_ = channel.channel.Close()
	return err
}

func (in *intake) askOn(channel *intakeChannel) error {
	_, err := channel.channel.QueueDeclarePassive(in.queue, true, false, false, false, nil)
	return err
}

// ask returns when the broker has taken note of what was acknowledged. It leaves out channels whose acknowledgements are all known.
func (in *intake) ask() error {
	for _, channel := range in.channels {
		if channel.sure == channel.acknowledged {
			continue
		}
		if err := in.askOn(channel); err != nil {
			return err
		}
		channel.sure, channel.asked = channel.asked, channel.acknowledged
	}
	return nil
}

// acknowledged is how many messages were acknowledged.
func (in *intake) acknowledged() int {
	count := in.closed
	for _, channel := range in.channels {
		count += int(channel.acknowledged)
	}
	return count
}

// close gives back what is held, in order. A queue puts messages back in the order in which it hears of the ends of channels, which is not
// that in which they end: returned has to wait until the queue has heard. The error says that the broker may not know of each
// acknowledgement.
func (in *intake) close(returned func()) error {
	errs := make([]error, len(in.channels))
	for i, channel := range in.channels {
		errs[i] = in.end(channel)
		if channel.held > 0 {
			returned()
		}
	}
	return errors.Join(errs...)
}

// hold keeps a message until the channel is closed.
func (c *intakeChannel) hold(message *amqp.Delivery) {
	c.connection.Release(message)
	c.held++
	if c.firstHeld == 0 || message.DeliveryTag < c.firstHeld {
		c.firstHeld = message.DeliveryTag
	}
}

// confirm has a message acknowledged with the next flush.
func (c *intakeChannel) confirm(tag uint64) { c.confirmed[tag] = true }

// flush acknowledges what was confirmed: in one go up to the first message that is not, and behind one that is held each for itself.
func (c *intakeChannel) flush() error {
	last := c.settled
	for ; c.confirmed[last+1]; last++ {
		delete(c.confirmed, last+1)
	}
	if last > c.settled {
		c.acknowledged += last - c.settled
		c.settled = last
		if err := c.channel.Ack(last, true); err != nil {
			return err
		}
	}
	if c.firstHeld == 0 {
		return nil
	}
	for _, tag := range slices.Sorted(maps.Keys(c.confirmed)) {
		if tag < c.firstHeld {
			continue
		}
		delete(c.confirmed, tag)
		c.acknowledged++
		if err := c.channel.Ack(tag, false); err != nil {
			return err
		}
	}
	return nil
}
