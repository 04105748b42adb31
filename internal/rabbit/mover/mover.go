package mover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/retry"
)

// Config describes a move.
type Config struct {
	// Dial opens the AMQP connection of the move.
	Dial func(context.Context) (*amqpconn.Conn, error)
	Errs brokererr.Errors
	Log  logr.Logger

	// Queue is the queue that messages are taken from.
	Queue string
	// Destination is the queue that receives the messages, and whose depth is limited; empty if there may be several.
	Destination string
	// Exchange is an exchange that routes only to Destination; empty if there is none. If the broker refuses a copy that was published to
	// Exchange, no queue has the copy.
	Exchange string
	// Behind is a queue that receives the messages from Destination later; empty if there is none. Its depth also counts.
	Behind string
	// Filter selects the messages, and Copier creates the copies to publish. A move that deletes, or only counts, needs no Copier.
	Filter Filter
	Copier Copier
	// Settings is called repeatedly, because the settings may change while the move runs.
	Settings func() Settings

	// Total is the maximum number of messages to examine: the number of ready messages when the move began. Moved is the maximum number of
	// them that earlier runs have moved. Unsure is how many of Moved may still be in the queue.
	Total, Moved, Unsure int
	// Apart selects the moved or deleted messages that Progress.Apart also counts; nil for none. MovedApart is how many of them
	// earlier runs have moved.
	Apart      func(message *amqp.Delivery) bool
	MovedApart int
	// EndBelow ends the move when the queue has fewer ready messages than this; zero moves all messages.
	EndBelow int
	// Limit is the maximum number of moved messages, earlier runs included; zero means no limit.
	Limit int
	// DryRun counts the messages that would be moved or deleted, and moves or deletes none.
	DryRun bool
	// Delete deletes messages instead of moving them. The move ends with ErrInterrupted when the number of deleted messages
	// becomes uncertain.
	Delete bool
	// Drop selects messages to delete instead of moving them; nil for none.
	Drop func(message *amqp.Delivery) bool
	// Selective means that some messages may stay in the queue. The move then uses a larger prefetch.
	Selective bool
	// DeliveryLimited means that the queue may delete returned messages, because it has a delivery limit. The move then gets the messages
	// one by one, so that the broker delivers only messages that are moved. Before it stops, the move completes the current message.
	// RabbitMQ does not allow basic.get at a queue with a single active consumer.
	DeliveryLimited bool
	// EndAtUnreadable ends the move with ErrUnreadable when deliveries end the connection twice without progress in between. Otherwise the
	// move opens further connections, and moves the messages in front of the unreadable one. Each end of a connection counts as a delivery.
	EndAtUnreadable bool
	// Failures are messages that earlier runs could not move. The move does not publish them again.
	Failures []Failure
	// MaxFailures ends the move once this many messages could not be moved.
	MaxFailures int

	// Report receives the progress when the state changes, and several times a second.
	Report func(Progress)
}

// Filter selects the messages to move.
type Filter interface {
	// Skips returns one word for the reason why a message stays in the queue; empty for a message to move. size is the length of its
	// body in bytes. A body above amqpconn.LargestBody is missing.
	Skips(message *amqp.Delivery, size int64) string
}

// Copier creates copies of messages.
type Copier interface {
	// Copy returns the seq-th copy of this run and its route. The copy must have seq in the header SeqHeader. An error explains why
	// the message cannot be moved.
	Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error)
}

// Settings are the parameters that may change while a move runs.
type Settings struct {
	// Rate is how many messages are moved each second; zero means as fast as the broker accepts them.
	Rate int
	// MaxDepth is the maximum number of ready messages of the destination and the queue behind it together; negative means no limit.
	MaxDepth int
	// MaxMoved is how many messages may be moved or deleted for now, earlier runs included; zero means no limit. At this number, the
	// move waits until MaxMoved rises.
	MaxMoved int
	// Paused stops the move from taking, publishing and acknowledging messages. The broker therefore delivers no more messages to
	// it.
	Paused bool
}

// State is the state of a move.
type State string

// The states of a move.
const (
	Connecting State = "Connecting"
	Moving     State = "Moving"
	// SourceMissing: the source queue does not exist.
	SourceMissing State = "SourceMissing"
	// DestinationMissing: the destination does not exist.
	DestinationMissing State = "DestinationMissing"
	// DestinationFull: the queue Config.Destination refuses messages.
	DestinationFull State = "DestinationFull"
	// DestinationBusy: the destination and the queue behind it have more ready messages than Settings.MaxDepth.
	DestinationBusy State = "DestinationBusy"
	// NothingDelivered: the queue has ready messages, but the broker delivers none, for example because another consumer is the single
	// active consumer.
	NothingDelivered State = "NothingDelivered"
	// NothingConfirmed: the broker confirms none of the published messages, for example because the destination has no leader.
	NothingConfirmed State = "NothingConfirmed"
	// Blocked: the broker accepts no messages from any publisher, because it lacks memory or disk space.
	Blocked State = "Blocked"
)

// Progress is the progress of a move.
type Progress struct {
	State State
	// Detail explains the state, for example why the broker refuses messages or cannot be reached.
	Detail string
	// Moved counts the moved or deleted messages, earlier runs included. In a dry run, it counts the messages that would be moved or
	// deleted.
	Moved int
	// Apart is how many of Moved are messages that Config.Apart selects.
	Apart int
	// Skipped counts the messages that stay, by the reason that Filter.Skips returned, or SkippedTooLarge.
	Skipped map[string]int
	// Failed is how many messages could not be moved. Failures describes them, once for each ID.
	Failed   int
	Failures []Failure
	// InFlight is how many copies wait for their confirms.
	InFlight int
	// Held is how many unsettled messages the move holds. The queue does not deliver them to other consumers.
	Held int
	// Unsure is how many of Moved may be in the queue again or counted twice, because their acknowledgements may be lost. Pending is
	// how many more would become unsure if the connection ended now.
	Unsure, Pending int
	// Consumers is how many other consumers the queue had at the end. They may hold messages that the move did not see. It is zero after a
	// move that was stopped, for a move with Config.EndBelow, and if the queue was too busy to count.
	Consumers int
}

// Certain is the minimum number of messages moved or deleted.
func (p Progress) Certain() int { return p.Moved - p.Unsure - p.Pending }

// Examined is how many messages were examined.
func (p Progress) Examined() int {
	examined := p.Moved + p.Failed
	for _, count := range p.Skipped {
		examined += count
	}
	return examined
}

// Failure is a message that could not be moved. It stays in the source queue.
type Failure struct{ ID, Reason, Message string }

// The reasons of failures.
const (
	// FailureRefused: the broker closed the channel or the connection because of the message, or one of several queues refused it.
	FailureRefused = "Refused"
	// failureUnroutable: the message would reach no queue.
	failureUnroutable = "Unroutable"
	// failureTooLarge: the headers of the copy leave too little room in an AMQP frame; see frameHeadroom.
	failureTooLarge = "HeadersTooLarge"
	// failureBodyTooLarge: the body is larger than amqpconn.LargestBody.
	failureBodyTooLarge = "BodyTooLarge"
	// failureNoRoute: the Copier found no valid route for the message.
	failureNoRoute = "NoRoute"
)

// Reasons why a move cannot continue.
var (
	// ErrTooManyFailures: Config.MaxFailures messages could not be moved.
	ErrTooManyFailures = errors.New("too many messages could not be moved")
	// ErrUnreadable: the broker cannot deliver the message at the head of the queue over AMQP 0-9-1, or Warren cannot decode it.
	ErrUnreadable = errors.New("the broker cannot deliver a message of the queue")
	// ErrTooSlow: a pass ended before it had examined all messages, and moved none. The next pass would begin at the head of the queue
	// again.
	ErrTooSlow = errors.New("examining all messages takes longer than Warren may hold them")
	// ErrTooManyHeld: more messages stay in the queue than one connection can hold until the end of a pass.
	ErrTooManyHeld = errors.New("one connection cannot hold all messages that stay in the queue")
	// ErrWaitedTooLong: the destination does not accept the message of a limited move. RabbitMQ closes the channel of a consumer
	// that holds a message for too long.
	ErrWaitedTooLong = errors.New("the destination has not accepted a message for ten minutes")
	// ErrInterrupted: the connection ended while Warren was deleting messages, and the broker may have lost acknowledgements.
	ErrInterrupted = errors.New("the connection ended while Warren was deleting messages")
	// ErrUnknownReturn: the broker has returned a message that this move did not publish, or that lacks SeqHeader.
	ErrUnknownReturn = errors.New("the broker has returned an unknown message")
)

// maxCrashes is how often a delivery may end the connection of a move that holds messages.
const maxCrashes = 3

// The pauses of a move.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	crashPause = 100 * time.Millisecond
	// passLimit is the maximum time for which a pass holds messages. RabbitMQ closes the channel of a consumer that settles nothing
	// for 30 minutes. A dry run cannot continue in another pass, so its limit is dryRunLimit.
	passLimit   = 10 * time.Minute
	dryRunLimit = 25 * time.Minute
	// settleLimit is how long a stopped move waits for confirms.
	settleLimit = 10 * time.Second
)

// move is the state that outlives a pass.
type move struct {
	Config
	pace *pace
	// failed are the IDs of messages that are not published again. failures describes them.
	failed   map[string]bool
	failures []Failure
	// apart is how many of moved are messages that Config.Apart selects.
	moved, apart int
	// unsure is how many messages were moved whose acknowledgements may be lost. unanswered is how many of moved the broker has not
	// confirmed.
	unsure, unanswered int
	// oneByOne is how many more messages are published one at a time: 1 for the first message, because the destination may be missing.
	// After the broker has refused a message by closing the channel, oneByOne is the number of its unconfirmed copies.
	oneByOne int
	seq      int64
	sizes    sizes
	// crashes counts the deliveries that ended a connection. atATime is the maximum prefetch since the last of them; zero if there was
	// none.
	crashes, atATime int
	progress         Progress
	// cutAt is when the last pass ended early; zero if none did. The broker may count its consumers for some time.
	cutAt time.Time
	// shortOfMemory reports whether the pass ended because the process had no memory for more messages.
	shortOfMemory bool
	// browse is nil unless the move is a browse.
	browse *browse
}

// Run moves messages until all of them were examined, the limit is reached, or the context ends. Before it returns, it settles the
// published messages. It returns the progress, and the reason why the move cannot continue.
func Run(ctx context.Context, config Config) (Progress, error) {
	t := &move{
		Config: config, pace: newPace(config.Settings()), failed: map[string]bool{}, moved: config.Moved, apart: config.MovedApart,
		unsure: config.Unsure, oneByOne: 1,
	}
	t.failures = slices.Clone(config.Failures)
	for _, failure := range config.Failures {
		t.failed[failure.ID] = true
	}
	t.progress.Moved, t.progress.Apart, t.progress.Unsure = t.moved, t.apart, t.unsure
	for pause := firstPause; ; {
		confirmed := t.moved - t.unanswered
		done, err := t.pass(ctx)
		switch {
		case t.Delete && t.unsure > 0:
			return t.progress, errors.Join(ErrInterrupted, err)
		case done, ctx.Err() != nil, isFinal(err):
			return t.progress, err
		case err == nil && !t.shortOfMemory: // the pass has reached its holdLimit
			t.forgetCrashes()
			continue
		case err == nil:
			t.shortOfMemory, err, pause = false, errNoMemory, crashPause
		case errors.Is(err, errCrashed): // the broker itself works
			pause = crashPause
		case t.moved-t.unanswered > confirmed:
			pause = firstPause
		}
		t.cutAt = time.Now()
		t.Log.V(1).Info("A pass of a move has ended", "queue", t.Queue, "reason", err.Error())
		if retry.Sleep(ctx, t.Errs, pause) != nil {
			return t.progress, nil //nolint:nilerr // a move that is stopped has not failed
		}
		pause = min(2*pause, lastPause)
	}
}

// isFinal reports whether a retry is useless.
func isFinal(err error) bool {
	return brokererr.IsAny(err, ErrTooManyFailures, ErrTooSlow, ErrTooManyHeld, ErrUnreadable, ErrWaitedTooLong, ErrUnknownReturn,
		brokererr.ErrAccessRefused)
}

// fail records a message that cannot be moved, once for each ID.
func (m *move) fail(message *amqp.Delivery, reason, text string) {
	if id := deadletter.Fingerprint(message); !m.failed[id] {
		m.failed[id] = true
		m.failures = append(m.failures, Failure{id, reason, text})
	}
}

func (m *move) countsApart(message *amqp.Delivery) bool {
	return m.Apart != nil && m.Apart(message)
}

// left returns how many messages a pass takes: all that are not certainly moved. Messages that were moved before a connection was cut may
// be in the queue again. So the pass takes that many more, or it would leave other messages behind.
func (m *move) left() int { return max(0, m.Total-m.moved+m.unsure) }

// reachedLimit reports whether the moved messages, together with the messages that are being moved, reach Config.Limit.
func (m *move) reachedLimit(moving int) bool { return m.Limit > 0 && m.moved+moving >= m.Limit }

// reachedMaxMoved reports whether no more messages may be moved until Settings.MaxMoved is raised.
func (m *move) reachedMaxMoved(moving int) bool {
	limit := m.Settings().MaxMoved
	return limit > 0 && m.moved+moving >= limit
}

func (m *move) report(progress Progress) {
	m.progress = progress
	m.Report(progress)
}
