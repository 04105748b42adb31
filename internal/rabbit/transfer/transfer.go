package transfer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// Config says what to move.
type Config struct {
	// Dial opens the AMQP connection of the transfer.
	Dial func(context.Context) (*amqpconn.Conn, error)
	Errs brokererr.Errors
	Log  logr.Logger

	// Queue is where messages are taken from.
	Queue string
	// Destination is the queue that they come to, whose depth is watched; empty if there may be several.
	Destination string
	// Exchange is an exchange that leads to Destination alone, if copies are published to one. If the broker refuses a copy, no queue has
	// it.
	Exchange string
	// Behind is a queue that the messages come to from Destination later: its depth counts, too. Empty if there is none.
	Behind string
	// Judge decides about each message, and Copier says how it is published. A transfer that deletes, or only counts, needs no Copier.
	Judge  Judge
	Copier Copier
	// Settings are asked for again and again: they may change while the transfer runs.
	Settings func() Settings

	// Total is how many messages are looked at, at most: those that were ready when the transfer began. Moved is how many of them earlier
	// runs have moved at most, and Unsure is how many of Moved may be in the queue still.
	Total, Moved, Unsure int
	// Apart says which of the messages that are moved or deleted Progress.Apart counts, too; nil for none of them. MovedApart is how many
	// of those earlier runs have moved.
	Apart      func(message *amqp.Delivery) bool
	MovedApart int
	// EndBelow ends the transfer as soon as the queue has fewer ready messages than this; zero moves all.
	EndBelow int
	// Limit is how many are moved at most, earlier runs included; no limit if zero.
	Limit int
	// DryRun counts the messages that would be moved or deleted, and moves or deletes none.
	DryRun bool
	// Delete has messages deleted instead of moved. Then the transfer ends with ErrInterrupted as soon as nobody knows any more how many
	// were deleted.
	Delete bool
	// Drop names messages that are deleted in place of being moved; nil for none of them.
	Drop func(message *amqp.Delivery) bool
	// Selective says that messages may stay that are not moved: more are taken at a time then.
	Selective bool
	// Limited says that the queue may delete messages that are given back. They are taken one at a time then, and a transfer that is
	// stopped moves the one that it has.
	Limited bool
	// MaxFailures ends the transfer when so many messages cannot be moved.
	MaxFailures int

	// Report is told how the transfer fares: when its state changes, and several times a second.
	Report func(Progress)
}

// Judge decides about messages.
type Judge interface {
	// Skips says in a word why a message stays where it is; empty if the message is to be moved.
	Skips(message *amqp.Delivery) string
	// ID identifies a message.
	ID(message *amqp.Delivery) string
}

// Copier makes copies of messages.
type Copier interface {
	// Copy is the message as it is published, as the seq-th of this run. The number has to be in the header SeqHeader of the copy. An
	// error says why the message cannot be moved.
	Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error)
}

// Settings are what may change while a transfer runs.
type Settings struct {
	// Rate is how many messages are moved each second; as fast as the broker takes them if zero.
	Rate int
	// MaxDepth is how many ready messages the destination and the queue behind it may have together; any number if negative.
	MaxDepth int
	// MaxMoved is how many messages may be moved or deleted for now, earlier runs included; any number if zero. The transfer waits until
	// it is raised.
	MaxMoved int
	// Paused has the transfer take, publish and acknowledge nothing for now. So the broker delivers no more messages to it.
	Paused bool
}

// State says what a transfer does.
type State string

// The states of a transfer.
const (
	Connecting State = "Connecting"
	Moving     State = "Moving"
	// SourceMissing: there is no such queue to take messages from.
	SourceMissing State = "SourceMissing"
	// DestinationMissing: the destination does not exist.
	DestinationMissing State = "DestinationMissing"
	// DestinationFull: the queue Config.Destination refuses messages.
	DestinationFull State = "DestinationFull"
	// DestinationBusy: the destination and the queue behind it have more ready messages than Settings.MaxDepth.
	DestinationBusy State = "DestinationBusy"
	// NothingDelivered: the queue has ready messages, and the broker delivers none, as with a single active consumer that is another one.
	NothingDelivered State = "NothingDelivered"
	// Blocked: the broker takes no messages from anybody, for lack of memory or disk space.
	Blocked State = "Blocked"
)

// Progress is how a transfer fares.
type Progress struct {
	State State
	// Detail says more of the state: why the broker refuses, or cannot be reached.
	Detail string
	// Moved counts the messages that were moved or deleted, by earlier runs too; in a dry run those that would be.
	Moved int
	// Apart is how many of Moved are messages that Config.Apart names.
	Apart int
	// Skipped counts the messages that stay, by the word of the Judge.
	Skipped map[string]int
	// Failed is how many messages could not be moved, and Failures tells of them, once of those that are alike.
	Failed   int
	Failures []Failure
	// InFlight is how many copies wait for their confirm.
	InFlight int
	// Held is how many messages the transfer has that are not settled. The queue delivers them to nobody else.
	Held int
	// Unsure is how many of Moved may be in the queue again, or be counted twice: their acknowledgements may have been lost. Pending is how
	// many more would be if the connection ended now.
	Unsure, Pending int
}

// Certain is how many messages were moved or deleted at least.
func (p Progress) Certain() int { return p.Moved - p.Unsure - p.Pending }

// Examined is how many messages were looked at.
func (p Progress) Examined() int {
	examined := p.Moved + p.Failed
	for _, count := range p.Skipped {
		examined += count
	}
	return examined
}

// Failure is a message that could not be moved. It stays where it is.
type Failure struct{ ID, Reason, Message string }

// The reasons of failures.
const (
	// FailureRefused: the broker closed the channel or the connection because of the message, or one of several queues refused it.
	FailureRefused = "Refused"
	// FailureUnroutable: the message would reach no queue.
	FailureUnroutable = "Unroutable"
	// FailureTooLarge: the headers of the copy leave too little room in a frame of AMQP; see frameHeadroom.
	FailureTooLarge = "HeadersTooLarge"
	// FailureBodyTooLarge: the body is larger than amqpconn.LargestBody.
	FailureBodyTooLarge = "BodyTooLarge"
	// FailureNoRoute: nobody knows where to publish the message to.
	FailureNoRoute = "NoRoute"
)

// Why a transfer cannot go on.
var (
	// ErrTooManyFailures: Config.MaxFailures messages could not be moved.
	ErrTooManyFailures = errors.New("too many messages could not be moved")
	// ErrUnreadable: the broker cannot deliver the message at the head of the queue over AMQP 0-9-1.
	ErrUnreadable = errors.New("the broker cannot deliver a message of the queue")
	// ErrTooSlow: a pass was over before the transfer had looked at all messages, and has moved none. The next one would begin at the head
	// of the queue again.
	ErrTooSlow = errors.New("messages may be held for a limited time, and looking at all of them takes longer")
	// ErrTooManyHeld: more messages stay than one connection can hold until the end of a pass.
	ErrTooManyHeld = errors.New("too many messages stay in the queue to hold all of them")
	// ErrWaitedTooLong: the destination does not take the message that a limited transfer has, and RabbitMQ ends consumers that hold a
	// message for too long.
	ErrWaitedTooLong = errors.New("the destination has not taken a message for ten minutes")
	// ErrInterrupted: the connection has ended while messages were deleted, and the broker may have forgotten acknowledgements.
	ErrInterrupted = errors.New("the connection has ended while messages were deleted")
	// ErrUnknownReturn: the broker has returned a message that is none of this transfer, or lacks SeqHeader.
	ErrUnknownReturn = errors.New("the broker has returned an unknown message")
)

// maxCrashes is how often a delivery may end the connection of a transfer that holds messages.
const maxCrashes = 3

// The pauses of a transfer.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	crashPause = 100 * time.Millisecond
	// passLimit is how long messages are held. RabbitMQ closes the channel of a consumer that settles nothing for 30 minutes. A dry run
	// cannot go on in another pass, so it may hold them for dryRunLimit.
	passLimit   = 10 * time.Minute
	dryRunLimit = 25 * time.Minute
	// settleLimit is how long a transfer that is stopped waits for confirms.
	settleLimit = 10 * time.Second
)

// transfer is what outlives a pass.
type transfer struct {
	Config
	pace *pace
	// failed are the IDs of messages that are not published again; failures tells of them.
	failed   map[string]bool
	failures []Failure
	// apart is how many of moved are messages that Config.Apart names.
	moved, apart int
	// unsure is how many messages were moved whose acknowledgement may have been lost.
	unsure int
	// careful is how many messages are still published one by one, to find the one for which the broker closes channels.
	careful int
	seq     int64
	sizes   sizes
	// crashes counts the deliveries that ended a connection; atATime is how many messages are delivered at a time since; zero if there was
	// none.
	crashes, atATime int
	progress         Progress
	// shortOfMemory says that the pass has ended because the process keeps no more messages.
	shortOfMemory bool
	// look is nil where messages are moved.
	look *look
}

// Run moves messages until all were looked at, the limit is reached, or the context ends; in every case it settles first what it has
// published. It returns what it has done, and why it cannot go on.
func Run(ctx context.Context, config Config) (Progress, error) {
	t := &transfer{
		Config: config, pace: newPace(config.Settings()), failed: map[string]bool{}, moved: config.Moved, apart: config.MovedApart,
		unsure: config.Unsure,
	}
	t.progress.Moved, t.progress.Apart, t.progress.Unsure = t.moved, t.apart, t.unsure
	for pause := firstPause; ; {
		moved := t.moved
		done, err := t.pass(ctx)
		switch {
		case t.Delete && t.unsure > 0:
			return t.progress, errors.Join(ErrInterrupted, err)
		case done, ctx.Err() != nil, isFinal(err):
			return t.progress, err
		case err == nil && !t.shortOfMemory: // what is held was held for long enough
			t.forgetCrashes()
			continue
		case err == nil:
			t.shortOfMemory, err, pause = false, errNoMemory, crashPause
		case errors.Is(err, errCrashed): // the broker is well
			pause = crashPause
		case t.moved > moved:
			pause = firstPause
		}
		t.Log.V(1).Info("A pass has ended", "queue", t.Queue, "reason", err.Error())
		if management.Sleep(ctx, t.Errs, pause) != nil {
			return t.progress, nil //nolint:nilerr // a transfer that is stopped has not failed
		}
		pause = min(2*pause, lastPause)
	}
}

// isFinal says whether it is of no use to try again.
func isFinal(err error) bool {
	final := []error{
		ErrTooManyFailures, ErrTooSlow, ErrTooManyHeld, ErrUnreadable, ErrWaitedTooLong, ErrUnknownReturn, brokererr.ErrAccessRefused,
	}
	return slices.ContainsFunc(final, func(reason error) bool { return errors.Is(err, reason) })
}

// fail takes note of a message that cannot be moved.
func (t *transfer) fail(message *amqp.Delivery, reason, text string) {
	if id := t.Judge.ID(message); !t.failed[id] {
		t.failed[id] = true
		t.failures = append(t.failures, Failure{id, reason, text})
	}
}

// countsApart reports whether Progress.Apart counts a message.
func (t *transfer) countsApart(message *amqp.Delivery) bool {
	return t.Apart != nil && t.Apart(message)
}

// left is how many messages a pass takes: all but those that were moved, for the others are in the queue again. Where a connection was
// cut, messages that were moved may be there, too: they are moved once more, rather than as many others left behind.
func (t *transfer) left() int { return max(0, t.Total-t.moved+t.unsure) }

// reachedLimit says whether so many messages were moved, or wait for their confirm, as may be.
func (t *transfer) reachedLimit(moving int) bool { return t.Limit > 0 && t.moved+moving >= t.Limit }

// reachedClaim reports whether no more messages may be moved until Settings.MaxMoved is raised.
func (t *transfer) reachedClaim(moving int) bool {
	most := t.Settings().MaxMoved
	return most > 0 && t.moved+moving >= most
}

// report tells of the transfer.
func (t *transfer) report(progress Progress) {
	t.progress = progress
	t.Report(progress)
}
