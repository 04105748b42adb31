package mover

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// intake takes messages out of a queue. Messages that are not moved are held, and count against the prefetch of their channel. When the
// current channel is full, intake opens another one.
type intake struct {
	connection *amqpconn.Conn
	queue      string
	channels   []*intakeChannel // in the order in which they were opened
	closed     int              // acknowledged messages of closed channels
	opened     int              // channels so far
	// quickest is the shortest time that an answer has taken at the end of a channel.
	quickest time.Duration
	// fresh reports whether a message has arrived that was never delivered before. The queue then has no more returned messages, because it
	// delivers those first.
	fresh bool
}

// intakeChannel is a channel with one consumer, or without one if the intake gets messages one by one.
type intakeChannel struct {
	connection *amqpconn.Conn
	channel    *amqp.Channel
	consumer   string // its tag
	deliveries <-chan amqp.Delivery
	prefetch   int
	// last: the messages in flight are the last ones of the channel. cancelled: the consumer was cancelled, or there is none.
	last, cancelled bool
	delivered       uint64
	acknowledged    uint64
	// asked is the value of acknowledged when the broker last answered a declaration on the channel, and removed the value of asked
	// before. The broker has processed the first `removed` acknowledgements.
	asked, removed uint64

	held      int    // messages that stay
	firstHeld uint64 // the first of them; zero if there is none
	settled   uint64 // all messages up to this one are acknowledged
	// confirmed are the delivery tags above `settled` that flush may acknowledge.
	confirmed map[uint64]bool
}

// open opens another channel, and closes channels whose messages are all acknowledged.
func (in *intake) open(prefetch int) error {
	in.channels = slices.DeleteFunc(in.channels, func(channel *intakeChannel) bool {
		if channel.delivered != channel.acknowledged || in.end(channel) != nil {
			return false
		}
		in.closed += int(channel.acknowledged)
		return true
	})
	in.opened++
	opened := &intakeChannel{
		connection: in.connection, consumer: fmt.Sprint("warren-move-", in.opened), prefetch: prefetch,
		confirmed: map[uint64]bool{},
	}
	err := withinLimit(in.connection, func() error { return opened.consume(in.queue) })
	if errors.Is(err, amqp.ErrChannelMax) {
		return fmt.Errorf("%w: a connection has at most %d channels", ErrTooManyHeld, in.connection.Connection.Config.ChannelMax)
	}
	if err != nil {
		return err
	}
	in.channels = append(in.channels, opened)
	return nil
}

// consume opens the channel and its consumer.
func (c *intakeChannel) consume(queue string) (err error) {
	if c.channel, err = c.connection.Connection.Channel(); err != nil {
		return err
	}
	if err := c.channel.Qos(c.prefetch, 0, false); err != nil {
		return err
	}
	c.deliveries, err = c.channel.Consume(queue, c.consumer, false, false, false, false, nil)
	return err
}

// openForGets opens the channel on which get takes messages.
func (in *intake) openForGets() error {
	return withinLimit(in.connection, func() error {
		channel, err := in.connection.Connection.Channel()
		in.channels = []*intakeChannel{{
			connection: in.connection, channel: channel, prefetch: 1, cancelled: true, confirmed: map[uint64]bool{},
		}}
		return err
	})
}

// get takes one message; false if none is ready.
func (in *intake) get() (message amqp.Delivery, ok bool, err error) {
	err = withinLimit(in.connection, func() (err error) {
		message, ok, err = in.current().channel.Get(in.queue, false) //nolint:forbidigo // only messages that cannot be moved return
		return err
	})
	return message, ok, err
}

// capacity is how many messages the broker delivers on all channels without an acknowledgement. The broker can have lost the
// acknowledgements of at most as many messages. A cancelled channel does not count once the broker has processed all its acknowledgements.
func (in *intake) capacity() (capacity int) {
	for _, channel := range in.channels {
		if !channel.cancelled || channel.removed < channel.delivered {
			capacity += channel.prefetch
		}
	}
	return capacity
}

// current is the channel that receives messages.
func (in *intake) current() *intakeChannel { return in.channels[len(in.channels)-1] }

// refill cancels the consumer of the current channel, so that the pass opens another channel, if the channel holds too many
// messages or needs another prefetch. It cancels only a full channel, because otherwise RabbitMQ returns a message in flight to the
// tail of the queue. Until the channel is full, it acknowledges nothing.
func (in *intake) refill(prefetch int) error {
	current := in.current()
	current.last = current.last || current.prefetch != prefetch || 2*current.held > prefetch
	if !current.last || current.cancelled || !current.isFull() {
		return nil
	}
	return current.cancel()
}

// stop ends deliveries and acknowledges the confirmed messages. A consumer that continued would receive the messages that other
// channels return.
func (in *intake) stop() error {
	if err := in.endCurrent(); err != nil {
		return err
	}
	err := in.flush(false)
	if in.hasAcknowledged() {
		time.Sleep(quiet) // a busy queue can lose acknowledgements that arrive shortly before the end of their channel
	}
	return err
}

// endCurrent ends deliveries on the current channel, and holds the messages that arrive until then. A broker that answers slowly
// also delivers slowly, so endCurrent waits longer for it.
func (in *intake) endCurrent() error {
	current := in.current()
	if current.deliveries == nil {
		return nil
	}
	current.last = true
	questions, began := 0, time.Now()
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
			took := time.Since(asked)
			if in.quickest == 0 || took < in.quickest {
				in.quickest = took
			}
			questions++
			isFar := questions >= enoughQuestions && took < 2*in.quickest
			open = took > prompt && !isFar && time.Since(began) < endLimit
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

// sweep takes the ready messages that were returned before, so that the intake can return all of them in order. A quorum queue has a
// separate list of returned messages. It delivers that list first, and appends newly returned messages to its end. limit is the maximum
// duration of the sweep. If limit passes first, the order of the messages may change, and sweep returns errUnswept. left returns the
// number of ready messages. Each channel takes more messages than the previous one, but few in excess, because each excess message joins
// the list of returned messages.
func (in *intake) sweep(limit time.Duration, left func() (int, error)) error {
	end := time.Now().Add(limit)
	for prefetch := firstSweep; in.unsettled() > 0 && !in.fresh && time.Now().Before(end); prefetch = min(2*prefetch, maxHeld) {
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
	if in.unsettled() > 0 && !in.fresh {
		return errUnswept
	}
	return nil
}

var errUnswept = errors.New("the broker is too slow to deliver all messages that were returned before")

const (
	// firstSweep is how many messages the first channel of a sweep takes.
	firstSweep = 64
	// sweepLimit is the maximum duration of a sweep, unless the move is stopped.
	sweepLimit = 20 * time.Second
)

// unsettled is how many messages the intake has taken and not acknowledged.
func (in *intake) unsettled() (count int) {
	for _, channel := range in.channels {
		count += int(channel.delivered - channel.acknowledged)
	}
	return count
}

func (in *intake) hasAcknowledged() bool {
	return slices.ContainsFunc(in.channels, func(channel *intakeChannel) bool { return channel.acknowledged > 0 })
}

const (
	// quiet is how long the intake waits for a message before it assumes that none is in flight. It is also how long it waits for an
	// acknowledgement to arrive.
	quiet = 100 * time.Millisecond
	// prompt is the maximum time for an answer of a broker that is neither busy nor far away. The intake repeats the question to a slower
	// broker until endLimit is over. If the last of enoughQuestions answers took about as long as the quickest, the broker is far away, not
	// busy.
	prompt          = 20 * time.Millisecond
	enoughQuestions = 3
	endLimit        = 2 * time.Second
)

// isFull reports whether the prefetch prevents further deliveries.
func (c *intakeChannel) isFull() bool { return c.delivered-c.acknowledged >= uint64(c.prefetch) }

func (c *intakeChannel) cancel() error {
	c.cancelled = true
	return withinLimit(c.connection, func() error { return c.channel.Cancel(c.consumer, false) })
}

// took counts a message that has arrived on the current channel.
func (in *intake) took(message *amqp.Delivery) {
	in.current().delivered++
	in.fresh = in.fresh || !message.Redelivered
}

// keep counts a message and holds it without examining it.
func (in *intake) keep(message *amqp.Delivery) {
	in.took(message)
	in.current().hold(message)
}

// flush acknowledges the confirmed messages. idle reports whether no message has arrived for a while. The queue then has no more messages,
// and the current channel need not be the last.
func (in *intake) flush(idle bool) error {
	if current := in.current(); idle && !current.cancelled {
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

// consumers is how many consumers the broker counts for this intake. The broker also counts a cancelled channel that holds
// messages.
func (in *intake) consumers() (count int) {
	for _, channel := range in.channels {
		if !channel.cancelled || channel.delivered > channel.acknowledged {
			count++
		}
	}
	return count
}

// end closes a channel. It first waits for an answer on the channel, which shows that the broker has processed every
// acknowledgement. Otherwise RabbitMQ can lose an acknowledgement right before the end of a channel.
func (in *intake) end(channel *intakeChannel) error {
	err := in.askOn(channel)
	_ = withinLimit(in.connection, channel.channel.Close)
	return err
}

func (in *intake) askOn(channel *intakeChannel) error {
	return withinLimit(in.connection, func() error {
		_, err := channel.channel.QueueDeclarePassive(in.queue, true, false, false, false, nil)
		return err
	})
}

// ask returns after the broker has processed the acknowledgements sent before. It skips channels whose acknowledgements are all
// processed.
func (in *intake) ask() error {
	for _, channel := range in.channels {
		if channel.removed == channel.acknowledged {
			continue
		}
		if err := in.askOn(channel); err != nil {
			return err
		}
		channel.removed, channel.asked = channel.asked, channel.acknowledged
	}
	return nil
}

// delivered is how many messages have arrived on the open channels.
func (in *intake) delivered() (count int) {
	for _, channel := range in.channels {
		count += int(channel.delivered)
	}
	return count
}

func (in *intake) acknowledged() int {
	count := in.closed
	for _, channel := range in.channels {
		count += int(channel.acknowledged)
	}
	return count
}

// close returns the held messages in order. A queue returns messages in the order in which it processes the ends of channels, which
// can differ from the order of closing. After each channel with held messages, close calls returned, which must wait until the
// queue has processed the end. After an error, the broker may have lost acknowledgements.
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

// hold holds a message until its channel is closed.
func (c *intakeChannel) hold(message *amqp.Delivery) {
	c.connection.Release(message)
	c.held++
	if c.firstHeld == 0 || message.DeliveryTag < c.firstHeld {
		c.firstHeld = message.DeliveryTag
	}
}

// confirm marks a message for acknowledgement by flush.
func (c *intakeChannel) confirm(tag uint64) { c.confirmed[tag] = true }

// flush acknowledges the confirmed messages. One acknowledgement covers all messages up to the first unconfirmed one. Confirmed
// messages behind a held one are acknowledged one by one.
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
