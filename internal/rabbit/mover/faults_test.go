package mover

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// quiescent returns a pass that has published nothing yet.
func quiescent() *pass {
	config := Config{Filter: toDestination{}, Settings: func() Settings { return Settings{MaxDepth: -1} }, Report: func(Progress) {}}
	from := &intakeChannel{prefetch: maxWindow, confirmed: map[uint64]bool{}}
	return &pass{
		move:   &move{Config: config, pace: newPace(Settings{}), failed: map[string]bool{}},
		intake: &intake{channels: []*intakeChannel{from}}, state: Moving,
		outlet: &outlet{
			confirms: make(chan amqp.Confirmation, maxWindow), returns: make(chan amqp.Return, maxWindow), inFlight: map[uint64]*item{},
		},
	}
}

// acked is the answer of a broker.
type acked bool

func (a acked) Acked() bool { return bool(a) }

// The broker ends the connection with a reason before the channel for copies is open.
func TestAConnectionThatEndsBeforeItIsOpen(t *testing.T) {
	t.Parallel()
	p := quiescent()
	p.connection, p.outlet = &amqpconn.Conn{}, nil
	err := p.connectionClosed(&amqp.Error{Code: amqp.InternalError, Reason: "stopping", Server: true})
	topologytest.Equal(t, "the error names the cause", true, errors.Is(err, errCrashed))
	err = p.connectionClosed(&amqp.Error{Code: amqp.ConnectionForced, Reason: "stopping", Server: true})
	topologytest.Equal(t, "the connection has failed", true, errors.Is(err, brokererr.ErrUnreachable))
}

// The broker closes the channel for copies because of the third message, after it has confirmed the first two and the fourth. The pass
// publishes only the third message again.
func TestConfirmsThatArriveBeforeTheChannelIsClosed(t *testing.T) {
	t.Parallel()
	p := quiescent()
	for number := uint64(1); number <= 4; number++ {
		p.outlet.inFlight[number] = &item{
			message: amqp.Delivery{DeliveryTag: number}, from: p.intake.current(), answer: acked(number != 3),
		}
	}
	p.outlet.confirms <- amqp.Confirmation{DeliveryTag: 1, Ack: true}
	p.outlet.confirms <- amqp.Confirmation{DeliveryTag: 2, Ack: true}
	close(p.outlet.confirms)
	topologytest.Equal(t, "error", nil, p.takeConfirms())
	topologytest.Equal(t, "moved", 3, p.moved)
	topologytest.Equal(t, "messages to publish again", 1, len(p.outlet.inFlight))
	topologytest.Equal(t, "message to publish again", uint64(3), p.outlet.inFlight[3].message.DeliveryTag)
}

// While the destination is missing, it may be declared between two copies. The second copy would overtake the first one.
func TestOneCopyIsPublishedUntilTheDestinationAcceptsOne(t *testing.T) {
	t.Parallel()
	p := quiescent()
	p.Destination = "orders"
	copyOf := func(number uint64, returned string) {
		p.outlet.inFlight[number] = &item{
			message: amqp.Delivery{DeliveryTag: number}, from: p.intake.current(), answer: acked(true), returned: returned,
		}
		topologytest.Equal(t, "error", nil, p.answered(number))
	}
	copyOf(1, "NO_ROUTE")
	topologytest.Equal(t, "state", DestinationMissing, p.state)
	topologytest.Equal(t, "copies at a time while the destination is missing", 1, p.window())
	copyOf(2, "")
	topologytest.Equal(t, "state", Moving, p.state)
	topologytest.Equal(t, "more copies at a time after one was accepted", true, p.window() > 1)
}

func TestWhichClosesAreAboutAMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code int
		want bool
	}{
		"another user's user-id, or a message that is too large": {amqp.PreconditionFailed, true},
		"an exchange that does not exist":                        {amqp.NotFound, true},
		"an exchange that the user must not write to":            {amqp.AccessRefused, true},
		"a message that the broker cannot store":                 {amqp.InternalError, true},
		"a node that shuts down":                                 {amqp.ConnectionForced, false},
		"a lock of another connection":                           {amqp.ResourceLocked, false},
		"a vhost that is gone":                                   {amqp.NotAllowed, false},
		"a node without resources":                               {amqp.ResourceError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "about a message", test.want, isAboutMessage(test.code))
		})
	}
}

// A move can take days, and the broker may fail for a moment again and again. Only connections that end without progress in
// between indicate a message that the broker cannot deliver.
func TestCrashesWithProgressInBetween(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		moved int // in each pass
		want  []bool
	}{
		"none":              {0, []bool{false, false, false, true}},
		"less than a batch": {maxHeld, []bool{false, false, false, true}},
		"more than a batch": {maxHeld + 1, []bool{false, false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quiescent()
			p.Selective = true
			var unreadable []bool
			for range test.want {
				p.movedBefore = p.moved
				p.moved += test.moved
				p.sizes = sizes{messages: maxHeld, average: 1}
				unreadable = append(unreadable, errors.Is(p.ended(errCrashed), ErrUnreadable))
			}
			topologytest.Equal(t, "unreadable", test.want, unreadable)
		})
	}
}

// A queue may drop messages after few deliveries, and each connection that ends counts as one. A single end may have another cause.
func TestCrashesOfAMoveThatEndsAtUnreadable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends  bool
		moved int // in each pass
		want  []bool
	}{
		"it ends":                        {true, 0, []bool{false, true}},
		"it ends, with progress":         {true, maxWindow + 1, []bool{false, false, false}},
		"it moves the messages in front": {false, 0, []bool{false, false, false}},
	} {
		p := quiescent()
		p.EndAtUnreadable = test.ends
		var unreadable []bool
		for range test.want {
			p.movedBefore = p.moved
			p.moved += test.moved
			unreadable = append(unreadable, errors.Is(p.ended(errCrashed), ErrUnreadable))
		}
		topologytest.Equal(t, name, test.want, unreadable)
	}
}

// After a pass is over, the next one begins at the head of the queue. That is useless if it would get no further.
func TestWhyAPassIsOver(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		change func(*pass)
		want   error
	}{
		"has examined messages all the time": {func(*pass) {}, ErrTooSlow},
		"has moved some":                     {func(p *pass) { p.moved = 1 }, errPassOver},
		"waits for a confirm":                {func(p *pass) { p.outlet.inFlight[1] = &item{} }, errPassOver},
		"waits for room":                     {func(p *pass) { p.waiting = []*item{{}} }, errPassOver},
		"waits for messages":                 {func(p *pass) { p.takenAt = now.Add(-time.Second) }, errPassOver},
		"is a browse":                        {func(p *pass) { p.browse = &browse{} }, errPassOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quiescent()
			p.takenAt = now
			test.change(p)
			if why := p.whyOver(now); !errors.Is(why, test.want) {
				t.Errorf("got %v", why)
			}
		})
	}
}

// The status of a Redrive shows the text. A user of the status may lack the permission to read messages.
func TestWhatARefusalQuotes(t *testing.T) {
	t.Parallel()
	const quoted = "exchange 'hunter2' in vhost '/'"
	for name, test := range map[string]struct {
		code        int
		destination string
		want        string
	}{
		"the exchange of a header is missing":      {code: amqp.NotFound, want: "the exchange that the message names does not exist"},
		"the exchange of a header may not be used": {code: amqp.AccessRefused, want: "the user must be allowed to write to the exchange that the message names"},
		"another refusal":                          {code: amqp.PreconditionFailed, want: quoted},
		"a destination is missing":                 {code: amqp.NotFound, destination: "orders", want: quoted},
		"a destination may not be used":            {code: amqp.AccessRefused, destination: "orders", want: quoted},
	} {
		p := quiescent()
		p.Destination = test.destination
		topologytest.Equal(t, name, test.want, p.refusal(&amqp.Error{Code: test.code, Reason: quoted}))
	}
}

// RabbitMQ closes the channel of a consumer that holds a message for too long.
func TestHowLongAPassHoldsMessages(t *testing.T) {
	t.Parallel()
	now := time.Now()
	longAgo := now.Add(-passLimit - time.Minute)
	for name, test := range map[string]struct {
		change func(*pass)
		want   error
	}{
		"the message of a limited move waits": {
			func(p *pass) { p.DeliveryLimited, p.blocked, p.waiting, p.takenAt = true, true, []*item{{}}, longAgo }, ErrWaitedTooLong,
		},
		"the pass holds a message":          {func(p *pass) { p.held, p.began = 1, longAgo }, errPassOver},
		"the pass has not held it for long": {func(p *pass) { p.held, p.began = 1, now.Add(-time.Minute) }, nil},
		"the pass has waited for a message": {func(p *pass) { p.began = longAgo }, nil},
		"the broker blocks the pass":        {func(p *pass) { p.held, p.began, p.blocked = 1, longAgo, true }, nil},
		"a dry run holds messages longer":   {func(p *pass) { p.held, p.began, p.DryRun = 1, longAgo, true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quiescent()
			p.takenAt = now.Add(-time.Second)
			test.change(p)
			topologytest.Equal(t, "error", nil, p.tick(now))
			if !errors.Is(p.stopReason, test.want) || p.stopping != (test.want != nil) {
				t.Errorf("stops: %t, because %v", p.stopping, p.stopReason)
			}
		})
	}
}

// The broker ends the connection because of a copy. The cause is certain only if the copy was published alone.
func TestACopyThatEndsTheConnection(t *testing.T) {
	t.Parallel()
	ofBroker := &amqp.Error{Code: amqp.FrameError, Reason: "frame too large", Server: true}
	type state struct{ InFlight, OneByOne, Failures int }
	for name, test := range map[string]struct {
		reason       *amqp.Error
		before, want state
	}{
		"published alone":                {ofBroker, state{InFlight: 1, OneByOne: 1}, state{OneByOne: 1, Failures: 1}},
		"one of two":                     {ofBroker, state{InFlight: 2}, state{InFlight: 2, OneByOne: 2}},
		"the last one of several":        {ofBroker, state{InFlight: 1}, state{InFlight: 1, OneByOne: 1}},
		"the first of three, one by one": {ofBroker, state{InFlight: 1, OneByOne: 3}, state{OneByOne: 3, Failures: 1}},
		"ended by the client":            {&amqp.Error{Code: amqp.FrameError}, state{InFlight: 1, OneByOne: 1}, state{InFlight: 1, OneByOne: 1}},
		"a node that shuts down": {
			&amqp.Error{Code: amqp.ConnectionForced, Server: true}, state{InFlight: 1, OneByOne: 1}, state{InFlight: 1, OneByOne: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quiescent()
			p.connection, p.oneByOne, p.MaxFailures = &amqpconn.Conn{}, test.before.OneByOne, 10
			for number := range test.before.InFlight {
				p.outlet.inFlight[uint64(number)] = &item{}
			}
			if err := p.connectionClosed(test.reason); !errors.Is(err, brokererr.ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			topologytest.Equal(t, "state", test.want, state{len(p.outlet.inFlight), p.oneByOne, len(p.failures)})
		})
	}
}

// The broker does not reach the process of a queue. No message causes that, whether or not a copy is in flight.
func TestAQueueThatIsNotAvailable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"failed consuming from quorum queue 'orders.dlq' in vhost 'shop': noproc",
		"timed out consuming from quorum queue 'orders.dlq' in vhost 'shop'",
		"Cannot get a message from queue 'orders.dlq' in vhost 'shop': noproc",
	} {
		for _, copies := range []int{0, 1} {
			p := quiescent()
			p.connection, p.oneByOne, p.MaxFailures = &amqpconn.Conn{}, copies, 10
			for number := range copies {
				p.outlet.inFlight[uint64(number)] = &item{}
			}
			err := p.connectionClosed(&amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR - " + text, Server: true})
			topologytest.Equal(t, text, true, errors.Is(err, brokererr.ErrUnreachable) && !errors.Is(err, errCrashed))
			topologytest.Equal(t, text+": copies in flight", copies, len(p.outlet.inFlight))
			topologytest.Equal(t, text+": failures", 0, len(p.failures))
		}
	}
}

// The broker may have accepted the copies in flight when the connection ends, so the limit of the move covers them.
func TestCopiesInFlightAtTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	p := quiescent()
	p.outlet.inFlight[1], p.outlet.inFlight[2] = &item{}, &item{}
	p.countUnsure()
	topologytest.Equal(t, "moved", 2, p.moved)
	topologytest.Equal(t, "not confirmed", 2, p.unanswered)
	topologytest.Equal(t, "unsure", 2, p.unsure)
	topologytest.Equal(t, "in flight", 0, len(p.outlet.inFlight))
}
