package recreate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// phase is a phase of a recreation.
type phase string

const (
	diverting  phase = "Diverting"
	emptying   phase = "Emptying"
	swapping   phase = "Swapping"
	givingBack phase = "GivingBack"
	done       phase = "done"
)

// recreating does what a controller does: it calls one phase after the other, and goes on from what it has recorded after a crash.
type recreating struct {
	t  *testing.T
	vh *brokers.VHost

	config     rabbit.Config
	timeouts   timing.Timeouts
	connection *rabbittest.Connection
	// record outlives a crash.
	record struct {
		recreate.Recreation

		phase phase
	}
	// survives is called at each step; false simulates a crash. It may be nil.
	survives func(step string) bool
	// failed is called with each error, and reported with the progress of a move. They may be nil.
	failed   func(error)
	reported func(recreate.Progress)
	// crashes counts the simulated crashes. backedOut is why the recreation was reverted; empty if it was not.
	crashes   int
	backedOut recreate.Reason
	past      int
	moved     int
	swapped   recreate.Swapped
	// deletes counts the recorded deletes. refusesRepeats refuses to record more than one.
	deletes        int
	refusesRepeats bool
}

// recreation begins the recreation of the queue orders, with a new limit of deliveries.
func recreation(t *testing.T, vh *brokers.VHost, arguments vhost.Arguments) *recreating {
	t.Helper()
	r := &recreating{t: t, vh: vh, config: rabbittest.ConfigOf(vh), timeouts: rabbittest.Unpaced()}
	r.timeouts.Vanish = time.Second
	again := rabbittest.Quorum(arguments)
	again[vhost.ArgDeliveryLimit] = int64(7)
	r.record.Recreation = recreate.Recreation{ID: recreate.NewID("shop/orders"), Queue: topology.Queue{Name: "orders", Arguments: again}}
	r.record.phase = diverting
	return r
}

// run goes on until the recreation has ended.
func (r *recreating) run() {
	r.t.Helper()
	for begun := time.Now(); r.record.phase != done; {
		if time.Since(begun) > 4*rabbittest.Within {
			r.t.Fatalf("still %s", r.record.phase)
		}
		err := r.next()
		if err != nil && r.failed != nil {
			r.failed(err)
		}
		switch reason := recreate.ReasonOf(err); {
		case err == nil:
		case errors.Is(err, crashpoint.ErrCrashed):
			r.crashes++
			r.restart()
		case !r.record.DeleteSent && slices.Contains([]recreate.Reason{recreate.PublishersPastBindings, recreate.NotProven}, reason):
			r.record.phase = emptying // the broker may be too slow for a proof
		case reason == "", reason == recreate.DeleteUncertain, reason == recreate.MessagesPending:
			r.t.Logf("%s again: %v", r.record.phase, err)
			time.Sleep(50 * time.Millisecond)
		default:
			r.t.Logf("%s goes back: %v", r.record.phase, err)
			r.backedOut, r.record.phase = reason, givingBack
		}
	}
}

func (r *recreating) restart() {
	r.connection.Close()
	r.connection = nil
}

// next works on the phase that is recorded, again if the broker is too busy to start a queue. Then it has also closed the connection.
func (r *recreating) next() error {
	r.t.Helper()
	for begun := time.Now(); ; r.restart() {
		err := r.attempt()
		if !errors.Is(err, brokererr.ErrQueueNotStarted) || time.Since(begun) > rabbittest.Within {
			return err
		}
	}
}

// attempt works once on the phase that is recorded.
func (r *recreating) attempt() (err error) {
	if r.connection == nil {
		r.connection = rabbittest.ConnectedWith(r.t, r.config, r.timeouts)
	}
	recreator := r.connection.Recreator(r.connection.Health().Cluster.Key())
	if r.survives != nil {
		recreator.Crash, r.connection.Deleter.Crash = r.survives, r.survives
	}
	ctx, rec, following := r.t.Context(), r.record.Recreation, done
	switch r.record.phase {
	case diverting:
		following = emptying
		err = recreator.Divert(ctx, rec, func(_ context.Context, bindings []vhost.Binding) error {
			r.record.Bindings = bindings
			return nil
		})
	case emptying:
		following = swapping
		var progress recreate.Progress
		progress, err = recreator.Empty(ctx, rec, r.reported)
		r.past += progress.Past
		r.moved += progress.Moved
		r.record.Emptied = r.record.Emptied || err == nil
	case swapping:
		following = givingBack
		var swapped recreate.Swapped
		swapped, err = recreator.Swap(ctx, rec, func(context.Context) error {
			r.record.DeleteSent = true
			r.deletes++
			if r.refusesRepeats && r.deletes > 1 {
				return &recreate.Error{Reason: recreate.Aborted}
			}
			return nil
		})
		r.past += swapped.Past
		r.moved += swapped.Moved
		if !errors.Is(err, crashpoint.ErrCrashed) {
			r.record.DeleteSent, r.swapped = swapped.DeleteSent, swapped
		}
	case givingBack:
		if rec.StatusLost {
			err = recreator.CheckNoDelete(ctx, rec)
		}
		if err == nil {
			_, err = recreator.GiveBack(ctx, rec, r.reported)
		}
	}
	if err == nil {
		r.record.phase = following
	}
	return err
}

// nextUntil works on all phases before the given one.
func (r *recreating) nextUntil(before phase) {
	r.t.Helper()
	for r.record.phase != before {
		if err := r.next(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// swap works on the phase swapping, and on those before it. It tries again if the broker is too slow for a proof.
func (r *recreating) swap() error {
	r.t.Helper()
	for begun := time.Now(); ; {
		r.nextUntil(swapping)
		err := r.next()
		if recreate.ReasonOf(err) != recreate.NotProven || r.record.DeleteSent || time.Since(begun) > rabbittest.Within {
			return err
		}
		r.record.phase = emptying
	}
}

// mustBeAsBefore fails unless the vhost is as it was, except the arguments of the queue.
func (r *recreating) mustBeAsBefore(before brokers.Definitions, swapped bool) {
	r.t.Helper()
	for i, queue := range before.Queues {
		if queue.Name == "orders" && swapped {
			before.Queues[i].Arguments = map[string]any{}
			for key, value := range r.record.Queue.Arguments {
				if number, ok := value.(int64); ok {
					value = float64(number)
				}
				before.Queues[i].Arguments[key] = value
			}
		}
	}
	now := NewWithT(r.t)
	now.Eventually(r.vh.Definitions).WithTimeout(rabbittest.Within).Should(BeComparableTo(before)) // RabbitMQ can list a deleted exchange
	now.Eventually(r.vh.Policies).WithTimeout(rabbittest.Within).Should(BeEmpty())                 // the fence of a deletion is taken down later
}

// stream publishes with confirms, one message after the other, until it is stopped.
type stream struct {
	stop      context.CancelFunc
	ended     sync.WaitGroup
	confirmed []string
	refused   int
}

// streamTo publishes to an exchange, and pauses after each message. It sets mandatory for the default exchange. It connects again if
// RabbitMQ closes the channel or the connection with an internal error, which happens when a queue disappears under a publisher.
func streamTo(t *testing.T, vh *brokers.VHost, exchange, key string, pause time.Duration) *stream {
	t.Helper()
	var channel *amqp.Channel
	var returns chan amqp.Return
	open := func() error {
		connection, err := vh.Connect("stream to " + exchange)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = connection.Close() })
		if channel, err = connection.Channel(); err != nil {
			return err
		}
		returns = channel.NotifyReturn(make(chan amqp.Return, 1))
		return channel.Confirm(false)
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{stop: cancel}
	s.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprintf("%s/%s/%d", exchange, key, i)
			confirmation, err := channel.PublishWithDeferredConfirm(exchange, key, exchange == "", false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id})
			taken := err == nil && confirmation.Wait()
			select {
			case _, isReturn := <-returns:
				taken = taken && !isReturn
			default:
			}
			if channel.IsClosed() {
				if err := open(); err != nil {
					t.Error(err)
					return
				}
			}
			if taken {
				s.confirmed = append(s.confirmed, id)
			} else {
				s.refused++
			}
			time.Sleep(pause)
		}
	})
	return s
}

// end returns what was confirmed.
func (s *stream) end() []string {
	s.stop()
	s.ended.Wait()
	return s.confirmed
}

// mustHold consumes a queue, and fails unless it holds at least these messages, and none of Warren's own. It returns all of them in order.
func mustHold(t *testing.T, vh *brokers.VHost, queue string, ids []string) (got []string) {
	t.Helper()
	connection, err := vh.Connect("count")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	messages, err := channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	limit := time.After(rabbittest.Within)
	for len(missing) > 0 {
		select {
		case message := <-messages:
			if safedelete.IsSentinel(&message) {
				t.Error("a sentinel is left")
			}
			got = append(got, message.MessageId)
			delete(missing, message.MessageId)
		case <-limit:
			t.Fatalf("of %d messages, %d are lost: %q", len(ids), len(missing), slices.Sorted(maps.Keys(missing))[:1])
		}
	}
	t.Logf("%d of %d messages, the others are duplicates", len(ids), len(got))
	return got
}

// boundQueue declares the queue orders with two exchanges.
func boundQueue(vh *brokers.VHost, arguments vhost.Arguments) {
	vh.DeclareQueue("orders", rabbittest.Quorum(arguments))
	vh.DeclareExchange("topic", "topic", nil)
	vh.DeclareExchange("direct", "direct", nil)
	vh.Bind("topic", "orders", "#", nil)
	vh.Bind("direct", "orders", "orders", nil)
}

// tierArguments are the arguments of a delay tier that returns messages to orders by name.
func tierArguments() vhost.Arguments {
	return rabbittest.Quorum(vhost.Arguments{
		vhost.ArgMessageTTL: int64(1000), vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders",
		vhost.ArgDeadLetterStrategy: "at-least-once", vhost.ArgOverflow: vhost.OverflowRejectPublish,
	})
}

// numbered are messages with IDs.
func numbered(count int) (ids []string, messages []amqp.Publishing) {
	for i := range count {
		ids = append(ids, fmt.Sprint("backlog/", i))
		messages = append(messages, amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: ids[i]})
	}
	return ids, messages
}

// Publishers that go through an exchange notice nothing: no message is lost, none is refused.
func TestRecreationUnderPublishers(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		backlog, messages := numbered(500)
		vh.Send("direct", "orders", messages...)
		topic, direct := streamTo(t, vh, "topic", "orders", time.Millisecond), streamTo(t, vh, "direct", "orders", time.Millisecond)
		run := recreation(t, vh, nil)
		run.run()
		run.record.phase = givingBack // as after a crash before the end was recorded
		run.run()
		if run.backedOut != "" || run.past > 0 {
			t.Errorf("it went back: %q; %d messages count as come past the bindings", run.backedOut, run.past)
		}
		confirmed := slices.Concat(topic.end(), direct.end())
		if topic.refused+direct.refused > 0 {
			t.Errorf("%d messages were refused", topic.refused+direct.refused)
		}
		t.Logf("the fence existed for %v, the queue was missing for %v", run.swapped.FenceStood, run.swapped.Absent)
		run.mustBeAsBefore(before, true)
		got := mustHold(t, vh, "orders", slices.Concat(backlog, confirmed))
		of := func(publisher string) []string {
			return slices.DeleteFunc(slices.Clone(got), func(id string) bool { return !strings.HasPrefix(id, publisher) })
		}
		if difference := cmp.Diff(backlog, of("backlog/")); difference != "" {
			t.Errorf("the order of the backlog:\n%s", difference)
		}
		for _, publisher := range []string{"topic/", "direct/"} {
			if late := lateOf(of(publisher)); late > maxLate {
				t.Errorf("%s: %d messages arrived after newer ones", publisher, late)
			}
		}
	})
}

// maxLate is how many messages of a publisher may arrive after newer ones. When the queue is bound again, the hold has about as
// many messages as arrive in a tenth of a second, one each millisecond. Others are in flight when bindings move.
var maxLate = int(deadline.For(100*time.Millisecond)/time.Millisecond) + 100

// lateOf counts the messages that arrive after a newer one of the same publisher, duplicates not counted.
func lateOf(ids []string) (late int) {
	newest, seen := -1, map[string]bool{}
	for _, id := range ids {
		number, _ := strconv.Atoi(id[strings.LastIndex(id, "/")+1:])
		if number < newest && !seen[id] {
			late++
		}
		newest, seen[id] = max(newest, number), true
	}
	return late
}

// crashCase is a queue that is recreated while Warren crashes.
type crashCase struct {
	arguments vhost.Arguments
	backlog   int
	tiers     []string
}

var crashCases = map[string]crashCase{
	"plain":   {},
	"backlog": {backlog: 2000},
	"with a DLX": {arguments: vhost.Arguments{
		vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders.dlq", vhost.ArgDeadLetterStrategy: "at-least-once",
		vhost.ArgOverflow: vhost.OverflowRejectPublish,
	}, backlog: 50},
	"with tiers": {tiers: []string{"orders.retry"}, backlog: 50},
}

// crashSteps are the steps of each phase after which Warren crashes.
var crashSteps = map[phase][]string{
	diverting: {recreate.StepProbed, recreate.StepHoldDeclared, recreate.StepRecorded, recreate.StepHoldBound, recreate.StepUnbound},
	emptying:  {recreate.StepMoved},
	swapping: {
		recreate.StepFrozen, safedelete.StepFenced, safedelete.StepProven, safedelete.StepSettled, safedelete.StepOne, safedelete.StepOpened,
		recreate.StepSwapped,
	},
	givingBack: {
		recreate.StepBackBound, recreate.StepMoved, recreate.StepRebound, recreate.StepHoldUnbound, safedelete.StepSettled, safedelete.StepOne,
		safedelete.StepOpened, recreate.StepHoldDeleted,
	},
}

// crashes are the steps after which Warren crashes during the n-th recreation. The queue is gone after the first of some steps, and then the
// later ones do not come.
func (c crashCase) crashes(n int) map[phase][]string {
	if testing.Short() {
		return map[phase][]string{
			diverting: {recreate.StepUnbound}, swapping: {safedelete.StepSettled, safedelete.StepOne}, givingBack: {recreate.StepRebound},
		}
	}
	without := [][]string{{safedelete.StepOne}, {safedelete.StepOpened}, {safedelete.StepOne, safedelete.StepOpened}}[n]
	steps := map[phase][]string{}
	for in, all := range crashSteps {
		steps[in] = slices.DeleteFunc(slices.Clone(all), func(step string) bool {
			return slices.Contains(without, step) || step == recreate.StepMoved && c.backlog == 0 && in == emptying ||
				step == recreate.StepFrozen && len(c.tiers) == 0 ||
				in == givingBack && step == recreate.StepHoldDeleted && len(without) == 1
		})
	}
	return steps
}

// Warren crashes once after each step of each phase. Nothing is lost, and nothing of ours is left.
func TestRecreationGoesOnAfterCrashes(t *testing.T) {
	t.Parallel()
	for name, test := range crashCases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				if name != "with tiers" {
					deadline.InTestAll(t)
				}
				vh.DeclareQueue("orders.dlq", rabbittest.Quorum(nil))
				boundQueue(vh, test.arguments)
				for _, tier := range test.tiers {
					vh.DeclareQueue(tier, tierArguments())
				}
				before := vh.Definitions()
				confirmed, messages := numbered(test.backlog)
				vh.Send("direct", "orders", messages...)
				stream := streamTo(t, vh, "topic", "orders", time.Millisecond)
				var last *recreating
				for n := range 3 {
					last = recreation(t, vh, test.arguments)
					last.record.Queue.Arguments[vhost.ArgDeliveryLimit] = int64(1000 + n) // each crash counts as a delivery
					last.record.Tiers = test.tiers
					last.crashAfter(test.crashes(n))
					if testing.Short() {
						break
					}
				}
				confirmed = slices.Concat(confirmed, stream.end())
				if stream.refused > 0 {
					t.Errorf("%d messages were refused", stream.refused)
				}
				last.mustBeAsBefore(before, true)
				mustHold(t, vh, "orders", confirmed)
			})
		})
	}
}

// crashAfter runs to the end, and crashes once after each of these steps.
func (r *recreating) crashAfter(steps map[phase][]string) {
	r.t.Helper()
	left := maps.Clone(steps)
	r.survives = func(step string) bool {
		i := slices.Index(left[r.record.phase], step)
		if i >= 0 {
			left[r.record.phase] = slices.Delete(slices.Clone(left[r.record.phase]), i, i+1)
		}
		return i < 0
	}
	r.run()
	for in, steps := range left {
		if len(steps) > 0 {
			r.t.Errorf("no crash while %s after %q", in, steps)
		}
	}
}

// A delay tier, to which nothing is bound, is recreated without a hold once it is empty.
func TestRecreationWithoutHold(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		vh.Publish("", "orders", "1")
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		run.record.WithoutHold = true
		waited := false
		run.failed = func(err error) {
			if waited = waited || errors.Is(err, brokererr.ErrNotEmpty); waited {
				vh.Purge("orders")
			}
		}
		run.run()
		if !waited {
			t.Error("it did not wait for the message")
		}
		run.mustBeAsBefore(before, true)
	})
}

// A queue with messages that came past its bindings is not deleted, unless the user accepts that. The messages stay.
func TestRecreationRefusesMessagesPastBindings(t *testing.T) {
	t.Parallel()
	past, sentinel := amqp.Publishing{MessageId: "past"}, amqp.Publishing{Type: safedelete.SentinelType, AppId: "warren"}
	cases := map[string]struct {
		step     string // after which the messages arrive
		messages []amqp.Publishing
	}{
		"before the fence": {recreate.StepFrozen, []amqp.Publishing{sentinel, past}}, // a sentinel that a crash has left does not count
		"behind the fence": {safedelete.StepFenced, []amqp.Publishing{past}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				vh.DeclareQueue("orders.retry", tierArguments())
				before := vh.Definitions()
				run := recreation(t, vh, nil)
				run.record.Tiers = []string{"orders.retry"}
				run.survives = func(step string) bool {
					if step == test.step {
						vh.Send("", "orders", test.messages...)
					}
					return true
				}
				if err := run.swap(); recreate.ReasonOf(err) != recreate.PublishersPastBindings || run.past != 1 || run.record.DeleteSent {
					t.Errorf("%v, %d past the bindings, delete sent: %v", err, run.past, run.record.DeleteSent)
				}
				run.survives, run.record.phase = nil, givingBack
				run.run()
				run.mustBeAsBefore(before, false)
				mustHold(t, vh, "orders", []string{"past"})
			})
		})
	}
}

// Of the messages that are published past the bindings, some are refused for a moment. None that was confirmed is lost.
func TestRecreationUnderPublishersPastBindings(t *testing.T) {
	deadline.InTestAll(t)
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		stream := streamTo(t, vh, "", "orders", 20*time.Millisecond)
		run := recreation(t, vh, nil)
		run.record.AcceptsPast = true
		run.run()
		confirmed := stream.end()
		t.Logf("%d messages bypassed the bindings, %d were moved, %d refused", run.past, run.moved, stream.refused)
		run.mustBeAsBefore(before, true)
		mustHold(t, vh, "orders", confirmed)
	})
}

// Messages whose delay ends while the fence stands come back a moment later, rather than three minutes.
func TestRecreationHoldsBackTiers(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		vh.DeclareQueue("orders.retry", tierArguments())
		before := vh.Definitions()
		stream := streamTo(t, vh, "", "orders.retry", 5*time.Millisecond)
		run := recreation(t, vh, nil)
		run.record.Tiers = []string{"orders.retry"}
		var declared, opened time.Time
		run.survives = func(step string) bool {
			switch step {
			case recreate.StepHoldDeclared:
				declared = time.Now()
			case recreate.StepRecorded:
				if rested := time.Since(declared); rested < 1500*time.Millisecond {
					t.Errorf("the hold is bound after %v, and RabbitMQ may not have written its name to disk", rested)
				}
			case safedelete.StepOpened:
				opened = time.Now()
			case recreate.StepSwapped:
				if rested := time.Since(opened); rested < 1500*time.Millisecond {
					t.Errorf("messages come to the new queue after %v, and RabbitMQ may not have written its name to disk", rested)
				}
			}
			return true
		}
		run.run()
		if run.past > 0 {
			t.Errorf("%d messages from the tier count as past the bindings", run.past)
		}
		confirmed := stream.end()
		run.mustBeAsBefore(before, true)
		mustHold(t, vh, "orders", confirmed)
	})
}

// A recreation that has to go back leaves the queue with its messages and bindings as they were.
func TestRecreationGoesBack(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		queue     vhost.Arguments // of the old queue
		setup     func(*testing.T, *brokers.VHost)
		arguments vhost.Arguments
		reason    recreate.Reason
		left      int // ready messages
	}{
		"a consumer": {
			setup: func(t *testing.T, vh *brokers.VHost) {
				rabbittest.Holding(t, vh, func(channel *amqp.Channel) error {
					_, err := channel.Consume("orders", "", false, false, false, false, nil)
					return err
				})
			},
			reason: recreate.ConsumersCameBack,
		},
		"a message that is held": {
			setup: func(t *testing.T, vh *brokers.VHost) {
				vh.Publish("direct", "orders", "1")
				rabbittest.Holding(t, vh, func(channel *amqp.Channel) error {
					_, _, err := channel.Get("orders", false)
					return err
				})
			},
			reason: recreate.ConsumersCameBack,
		},
		"a single active consumer that receives the messages": {
			queue: vhost.Arguments{vhost.ArgSingleActiveConsumer: true},
			setup: func(t *testing.T, vh *brokers.VHost) {
				rabbittest.Holding(t, vh, func(channel *amqp.Channel) error {
					if err := channel.Qos(1, 0, false); err != nil {
						return err
					}
					_, err := channel.Consume("orders", "", false, false, false, false, nil)
					return err
				})
				vh.Publish("direct", "orders", "1", "2")
				rabbittest.Holds(t, vh, "orders", 1)
			},
			reason: recreate.ConsumersCameBack, left: 1,
		},
		"arguments that are refused": {
			setup:     func(_ *testing.T, vh *brokers.VHost) { vh.Publish("direct", "orders", "1", "2") },
			arguments: vhost.Arguments{vhost.ArgMessageTTL: int64(-1)}, reason: recreate.ArgumentsRefused, left: 2,
		},
		"a message of AMQP 1.0": {
			setup: func(_ *testing.T, vh *brokers.VHost) {
				vh.SendAMQP10("orders", brokers.AMQP10{Properties: map[string]any{"id": brokers.UUID{}}, Body: "1"})
			},
			reason: recreate.AMQP10Message, left: 1,
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				if test.reason == recreate.AMQP10Message && !vh.Broker.KnowsAMQP10() {
					t.Skip("the broker takes no messages of AMQP 1.0")
				}
				boundQueue(vh, test.queue)
				before := vh.Definitions()
				test.setup(t, vh)
				run := recreation(t, vh, test.arguments)
				run.run()
				if run.backedOut != test.reason || run.record.DeleteSent {
					t.Errorf("it went back because of %q, not %q; a delete may be under way: %t", run.backedOut, test.reason, run.record.DeleteSent)
				}
				run.mustBeAsBefore(before, false)
				rabbittest.Holds(t, vh, "orders", test.left)
			})
		})
	}
}

// lacksMember connects through a proxy that shows the queue without a member.
func (r *recreating) lacksMember() {
	management := netfault.NewHTTPProxy(r.t, r.vh.Broker.ManagementURI, netfault.HTTPOptions{})
	management.Change(func(response *http.Response) error {
		if strings.HasSuffix(response.Request.URL.EscapedPath(), "/status") {
			response.StatusCode = http.StatusOK // RabbitMQ 3.10 has no such resource
			netfault.Replace(response, `[{"Node Name":"rabbit@here","Raft State":"noproc"}]`)
		}
		return nil
	})
	r.config.ManagementURI = management.URI
}

// RabbitMQ can declare a queue without a member on one of its nodes. Warren then swaps the queue up to three more times.
func TestRecreationOfAQueueThatLacksAMember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*recreating)
		deletes int
	}{
		"is repeated":                    {func(*recreating) {}, 4},
		"is not repeated after an abort": {func(run *recreating) { run.refusesRepeats = true }, 2},
		"is repeated after a crash": {func(run *recreating) {
			crashed := false
			run.survives = func(step string) bool {
				crashes := step == safedelete.StepSettled && run.deletes == 2 && !crashed
				crashed = crashed || crashes
				return !crashes
			}
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				before := vh.Definitions()
				vh.Publish("direct", "orders", "1")
				run := recreation(t, vh, nil)
				run.lacksMember()
				test.prepare(run)
				run.run()
				topologytest.Equal(t, "recorded deletes", test.deletes, run.deletes)
				run.mustBeAsBefore(before, true)
				topologytest.Equal(t, "messages", 1, vh.Ready("orders"))
			})
		})
	}
}

// RabbitMQ does not open the fence of the new queue. The recreation stays in its phase until the fence is gone, because spec.suspend has no
// effect in this phase only.
func TestSwapEndsAfterItsFenceIsGone(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
		var puts atomic.Int32
		management.Before(func(request *http.Request) {
			isPut := request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/policies/")
			if isPut && puts.Add(1) == 2 { // the first one closes the fence
				request.URL.Path, request.URL.RawPath = "/api/nothing", ""
			}
		})
		run.config.ManagementURI = management.URI
		run.nextUntil(givingBack)
		if isFenced(vh) || puts.Load() < 2 {
			t.Errorf("the queue is fenced: %t, after %d changes of its fence", isFenced(vh), puts.Load())
		}
		run.run()
		run.mustBeAsBefore(before, true)
	})
}

// A manager crashes while the fence is closed and its sentinels are in the queue, and the next one goes back. If the status was lost and
// the spec asks for the old arguments again, the old queue looks like the new one.
func TestRecreationGoesBackFromAClosedFence(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"the status is known": false, "the status is lost": true} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				before := vh.Definitions()
				ids, messages := numbered(3)
				vh.Send("direct", "orders", messages...)
				run := recreation(t, vh, nil)
				run.survives = func(step string) bool { return step != safedelete.StepProven }
				if err := run.swap(); !errors.Is(err, crashpoint.ErrCrashed) || !isFenced(vh) {
					t.Fatalf("no crash behind a fence: %v", err)
				}
				run.restart()
				run.survives, run.record.phase = nil, givingBack
				if run.record.StatusLost = lost; lost {
					run.record.Queue.Arguments = rabbittest.Quorum(nil)
				}
				run.run()
				run.mustBeAsBefore(before, false)
				mustHold(t, vh, "orders", ids)
			})
		})
	}
}

// Another client deletes the queue before its messages come back, and a manager that does not know yet that it no longer leads
// copies a message to the backlog. If a node was killed, it would lose the messages of a queue that was declared a moment ago.
func TestRecreationGivesBackToAQueueThatIsGone(t *testing.T) {
	deadline.InTestAll(t)
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		backlog, messages := numbered(3)
		vh.Send("direct", "orders", messages...)
		run := recreation(t, vh, nil)
		run.nextUntil(swapping)
		vh.DeleteQueue("orders")
		began, rested := time.Now(), time.Duration(0)
		run.survives = func(step string) bool {
			switch step {
			case recreate.StepBackBound:
				rested = time.Since(began)
			case recreate.StepHoldUnbound:
				vh.Send("", run.record.Backlog(), amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: "late"})
			}
			return true
		}
		run.record.phase = givingBack
		run.run()
		if rested < 1500*time.Millisecond {
			t.Errorf("messages are moved to the queue %v after its declaration", rested)
		}
		run.mustBeAsBefore(before, true)
		mustHold(t, vh, "orders", append(backlog, "late"))
	})
}

// Another client deletes the queue, and with it the binding through which its messages come back, while they are moved.
func TestRecreationGivesBackToAQueueThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, declaresAgain := range map[string]bool{"and stays deleted": false, "and is declared again": true} {
		t.Run(name, func(t *testing.T) {
			if declaresAgain {
				deadline.InTestAll(t)
			}
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				before := vh.Definitions()
				backlog, messages := numbered(3)
				vh.Send("direct", "orders", messages...)
				run := recreation(t, vh, nil)
				deletes := sync.OnceFunc(func() {
					vh.DeleteQueue("orders")
					if declaresAgain {
						vh.DeclareQueue("orders", run.record.Queue.Arguments)
					}
				})
				run.survives = func(step string) bool {
					if step == recreate.StepBackBound {
						deletes()
					}
					return true
				}
				run.failed = func(err error) {
					if recreate.ReasonOf(err) != recreate.MessageNotMoved {
						t.Error(err)
					}
				}
				run.run()
				run.mustBeAsBefore(before, true)
				mustHold(t, vh, "orders", backlog)
			})
		})
	}
}

// The old queue drops its oldest messages beyond a limit that the new arguments do not have, or that a policy sets.
func TestRecreationGivesBackNoMoreThanTheOldQueueTakes(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, vhost.Arguments{vhost.ArgMaxLength: int64(10)})
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		delete(run.record.Queue.Arguments, vhost.ArgMaxLength)
		run.givesBackNoMoreThan8()
		run.mustBeAsBefore(before, false)
	})
}

func TestRecreationGivesBackNoMoreThanAPolicyAllows(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		vh.SetPolicy("short", policyOfOrders(map[string]any{vhost.KeyMaxLength: 10}))
		run := recreation(t, vh, nil)
		run.givesBackNoMoreThan8()
		vh.DeletePolicy("short")
		run.mustBeAsBefore(before, false)
	})
}

func policyOfOrders(definition map[string]any) brokers.Policy {
	return brokers.Policy{Pattern: "^orders$", ApplyTo: "queues", Definition: definition}
}

// givesBackNoMoreThan8 diverts 30 messages to the hold, gives them back, and takes them out of the queue.
func (r *recreating) givesBackNoMoreThan8() {
	r.t.Helper()
	if err := r.next(); err != nil {
		r.t.Fatal(err)
	}
	ids, messages := numbered(30)
	r.vh.Send("direct", "orders", messages...)
	r.record.phase = givingBack
	given := make(chan struct{})
	go func() {
		defer close(given)
		r.run()
	}()
	rabbittest.Holds(r.t, r.vh, "orders", 8)
	mustHold(r.t, r.vh, "orders", ids)
	<-given
}

// While the recreation runs, a policy makes the queue drop its oldest messages beyond a size. No message is given back before the
// queue refuses messages instead.
func TestRecreationGivesNothingBackToAQueueThatDropsBytes(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	run := recreation(t, vh, nil)
	if err := run.next(); err != nil {
		t.Fatal(err)
	}
	ids, messages := numbered(30)
	vh.Send("direct", "orders", messages...)
	vh.SetPolicy("small", policyOfOrders(map[string]any{vhost.KeyMaxLengthBytes: 1 << 20}))
	run.record.phase = givingBack
	if err := run.next(); recreate.ReasonOf(err) != recreate.LossyLength {
		t.Error(err)
	}
	run.mustBeBound()
	rabbittest.Holds(t, vh, run.record.Hold(), 30)
	vh.SetPolicy("small", policyOfOrders(map[string]any{vhost.KeyMaxLengthBytes: 1 << 20, vhost.KeyOverflow: vhost.OverflowRejectPublish}))
	run.run()
	mustHold(t, vh, "orders", ids)
}

// The BrokerConnection is suspended, or gets another Secret, while messages are moved, and the broker cannot be reached. A move that
// outlived its connection would retry with it forever.
func TestAMoveEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	_, messages := numbered(3)
	vh.Send("direct", "orders", messages...)
	run := recreation(t, vh, nil)
	proxy := netfault.NewProxy(t, run.config.AMQPURI)
	run.config.AMQPURI = proxy.URI
	if err := run.next(); err != nil {
		t.Fatal(err)
	}
	ended, connecting := make(chan error, 1), make(chan struct{})
	cut := sync.OnceFunc(func() {
		proxy.Refuse()
		close(connecting)
	})
	recreator := run.connection.Recreator(run.connection.Health().Cluster.Key())
	go func() {
		_, err := recreator.Empty(t.Context(), run.record.Recreation, func(recreate.Progress) { cut() })
		ended <- err
	}()
	<-connecting
	run.connection.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, brokererr.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(rabbittest.Within):
		t.Error("the move goes on")
	}
}

// Another client deletes the hold, and with it the bindings, and binds the queue to one of the exchanges.
func TestRecreationBindsTheQueueWithoutTheHold(t *testing.T) {
	deadline.InTestAll(t)
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		run.nextUntil(givingBack)
		vh.DeleteQueue(run.record.Hold())
		vh.Bind("topic", "orders", "#", nil)
		run.run()
		run.mustBeAsBefore(before, true)
	})
}

// Another client deletes the hold and an exchange, so one of the recorded bindings cannot be declared.
func TestRecreationEndsWithoutAnExchangeThatIsGone(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		run := recreation(t, vh, nil)
		run.nextUntil(givingBack)
		vh.DeleteQueue(run.record.Hold())
		vh.DeleteExchange("direct")
		run.run()
		if got := run.sourcesOf("orders"); !slices.Equal(got, []string{"topic"}) {
			t.Errorf("the queue is bound to %q", got)
		}
	})
}

// Another client deletes a queue while messages are moved out of it. The recreation continues without the queue.
func TestRecreationContinuesWithoutAQueueThatIsDeletedDuringAMove(t *testing.T) {
	t.Parallel()
	queue, hold := func(recreate.Recreation) string { return "orders" }, recreate.Recreation.Hold
	for name, test := range map[string]struct {
		during phase
		delete func(recreate.Recreation) string
		// old messages are in the queue when the recreation begins; newer messages come afterwards.
		old, newer bool
	}{
		"the queue, while it is emptied":           {during: emptying, delete: queue, old: true},
		"the hold, while its messages are moved":   {during: givingBack, delete: hold, newer: true},
		"the hold, while older messages are moved": {during: givingBack, delete: hold, old: true},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				before := vh.Definitions()
				ids, messages := numbered(3)
				if test.old {
					vh.Send("direct", "orders", messages...)
				}
				run := recreation(t, vh, nil)
				run.nextUntil(test.during)
				if test.newer {
					vh.Send("direct", "orders", messages...)
				}
				var deleted atomic.Bool
				deletes := sync.OnceFunc(func() {
					vh.DeleteQueue(test.delete(run.record.Recreation))
					deleted.Store(true)
				})
				run.reported = func(recreate.Progress) { deletes() }
				run.run()
				if !deleted.Load() {
					t.Error("no queue was deleted during a move")
				}
				if run.backedOut != "" {
					t.Errorf("it went back because of %q", run.backedOut)
				}
				run.mustBeAsBefore(before, true)
				if test.delete(run.record.Recreation) != "orders" && test.old {
					mustHold(t, vh, "orders", ids)
				}
			})
		})
	}
}

// strandDelete connects through a proxy that holds back one delete of the queue, whose connection is lost, until Release: the first one, or
// a later one.
func (r *recreating) strandDelete(number int32) *netfault.FrameProxy {
	var settled atomic.Bool
	var sent atomic.Int32
	proxy := netfault.NewFrameProxy(r.t, r.vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
		// An attempt that was too late has settled, too. The next one deletes its probe before the queue.
		isOurs := frame.Method == amqpmethod.QueueDelete && bytes.Contains(frame.Arguments, []byte("\x06orders"))
		if isOurs && settled.Load() && sent.Add(1) == number {
			return netfault.Strand
		}
		return netfault.Pass
	})
	r.config.AMQPURI = proxy.URI
	r.survives = func(step string) bool {
		settled.CompareAndSwap(false, step == safedelete.StepSettled)
		return true
	}
	return proxy
}

// RabbitMQ may execute the delete of a swap after Warren's connection is gone. The fence refuses messages until the queue is gone, or until
// no delete can run any more. Otherwise these messages would be lost with the queue.
func TestRecreationWhoseDeleteArrivesLater(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ arrives, isRepeated bool }{
		"while Warren waits for it":        {arrives: true},
		"after the queue was swapped once": {arrives: true, isRepeated: true}, // so its arguments do not show the end of the delete
		"never":                            {},
	} {
		t.Run(name, func(t *testing.T) {
			if !test.arrives { // RabbitMQ notes after half a minute that the connection is gone, which holds a sentinel
				deadline.InTestAll(t)
			}
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				before := vh.Definitions()
				stream := streamTo(t, vh, "", "orders", 700*time.Millisecond)
				run := recreation(t, vh, nil)
				if test.arrives {
					run.timeouts.Vanish = rabbittest.Within // a busy broker may be late with the delete
				}
				stranded := int32(1)
				if test.isRepeated {
					run.lacksMember()
					run.record.AcceptsPast, run.record.Queue.Arguments[vhost.ArgDeliveryLimit] = true, int64(100)
					stranded = 2
				}
				proxy := run.strandDelete(stranded)
				uncertain := false
				run.failed = func(err error) {
					if recreate.ReasonOf(err) != recreate.DeleteUncertain || uncertain {
						return
					}
					uncertain = true
					if !run.record.DeleteSent || !isFenced(vh) {
						t.Errorf("the delete is recorded as sent: %t, the fence exists: %t", run.record.DeleteSent, isFenced(vh))
					}
					if test.arrives {
						time.AfterFunc(500*time.Millisecond, proxy.Release)
					}
				}
				run.run()
				if !uncertain {
					t.Error("the swap was never uncertain")
				}
				confirmed := stream.end()
				swapped := run.backedOut == ""
				if !swapped && (test.arrives || run.backedOut != recreate.ConsumersCameBack) { // the consumer of the connection that is gone
					t.Errorf("the recreation went back: %s", run.backedOut)
				}
				run.mustBeAsBefore(before, swapped)
				mustHold(t, vh, "orders", confirmed)
			})
		})
	}
}

// The status is lost while a delete is under way, and the spec asks for the old arguments again: nothing shows which queue this is.
func TestRecreationWhoseStatusIsLostDuringTheDelete(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		stream := streamTo(t, vh, "", "orders", 700*time.Millisecond)
		run := recreation(t, vh, nil)
		proxy := run.strandDelete(1)
		run.failed = func(err error) {
			if recreate.ReasonOf(err) != recreate.DeleteUncertain || run.record.StatusLost {
				return
			}
			run.timeouts.Vanish = rabbittest.Within
			run.restart()
			run.record.Queue.Arguments = rabbittest.Quorum(nil)
			run.record.phase, run.record.DeleteSent, run.record.StatusLost = givingBack, false, true
			time.AfterFunc(time.Second, proxy.Release)
		}
		run.run()
		if !run.record.StatusLost {
			t.Error("the swap was never uncertain")
		}
		confirmed := stream.end()
		run.mustBeAsBefore(before, false)
		mustHold(t, vh, "orders", confirmed)
	})
}

// A sentinel could be behind more messages than Warren searches. The recreation ends nevertheless if the queue is new, and if the status was
// lost, so that nothing shows whether the queue is new.
func TestRecreationEndsWithoutASentinel(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"the queue is new behind the fence of a repeated swap": false, "the status is lost": true} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				run := recreation(t, vh, nil)
				run.record.StatusLost, run.record.DeleteSent, run.record.phase = lost, !lost, givingBack
				arguments := vhost.Arguments{vhost.ArgDeliveryLimit: int64(7)}
				if !lost {
					run.record.Queue.Arguments[vhost.ArgDeliveryLimit] = int64(7)
				}
				boundQueue(vh, arguments)
				ids, messages := numbered(100)
				for i := range messages {
					messages[i].Priority = 255
				}
				vh.Send("direct", "orders", messages...)
				name := fence.Name{Owner: run.config.Owner, Begun: time.Now(), Recreation: true, Repeated: !lost}
				vh.SetPolicy(name.String("orders"), brokers.Policy{
					Pattern: fence.Pattern([]string{"orders"}), ApplyTo: "queues", Priority: 1000, Definition: fence.Fence{}.Closed(),
				})
				run.run()
				mustHold(t, vh, "orders", ids)
			})
		})
	}
}

// A queue that dead-letters at most once is empty when Check sees it, and in use when the fence would go up.
func TestRecreationSeesAQueueThatIsInUseAgain(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		vh.DeclareQueue("source", rabbittest.Quorum(vhost.Arguments{
			vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders",
		}))
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		run.nextUntil(swapping)
		vh.Publish("", "source", "1")
		run.run()
		if run.backedOut != recreate.DeadLetterSourceInUse {
			t.Errorf("it went back because of %q", run.backedOut)
		}
		run.mustBeAsBefore(before, false)
	})
}

// isFenced reports whether a fence of a recreation stands.
func isFenced(vh *brokers.VHost) bool {
	return slices.ContainsFunc(vh.Policies(), func(name string) bool { return strings.HasPrefix(name, "warren-recreate-") })
}

// What speaks against a recreation is known before anything is changed.
func TestRecreationIsRefused(t *testing.T) {
	t.Parallel()
	holding := func(arguments vhost.Arguments) func(*brokers.VHost) {
		return func(vh *brokers.VHost) {
			vh.DeclareQueue("source", rabbittest.Quorum(arguments))
			vh.Publish("", "source", "1")
		}
	}
	toOrders := vhost.Arguments{vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders"}
	atLeastOnce, dropping := maps.Clone(toOrders), maps.Clone(toOrders)
	atLeastOnce[vhost.ArgDeadLetterStrategy], atLeastOnce[vhost.ArgOverflow] = vhost.StrategyAtLeastOnce, vhost.OverflowRejectPublish
	dropping[vhost.ArgDeadLetterStrategy] = vhost.StrategyAtLeastOnce
	deadLetterAtMostOnce := vhost.Arguments{vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "dlq"}
	fewDeliveries := vhost.Arguments{vhost.ArgDeliveryLimit: int64(3)}
	oneReady := func(vh *brokers.VHost) { vh.Publish("direct", "orders", "1") }
	moves := func(rec *recreate.Recreation) { rec.Moves = true }
	cases := map[string]struct {
		arguments vhost.Arguments // of the queue that stands
		setup     func(*brokers.VHost)
		change    func(*recreate.Recreation)
		rights    []string        // to configure, write and read; all if there are none
		reason    recreate.Reason // none if the recreation may begin
		says      string
	}{
		"nothing":         {},
		"a classic queue": {arguments: vhost.Arguments{vhost.ArgQueueType: "classic"}, reason: recreate.UnsupportedQueue, says: "delete queue"},
		"a policy for the hold": {
			setup: func(vh *brokers.VHost) {
				vh.SetPolicy("ttl", brokers.Policy{Pattern: ".*", ApplyTo: "queues", Definition: map[string]any{"message-ttl": 1000}})
			},
			reason: recreate.InterferingPolicy, says: `policy "ttl" sets message-ttl`,
		},
		"an operator policy for the hold": {
			setup: func(vh *brokers.VHost) {
				vh.SetOperatorPolicy("length", brokers.Policy{Pattern: "^warren-", ApplyTo: "queues", Definition: map[string]any{"max-length": 9}})
			},
			reason: recreate.InterferingPolicy, says: `policy "length" sets max-length`,
		},
		"a fence of another instance": {
			setup: func(vh *brokers.VHost) {
				name := fence.Name{Owner: "another", Begun: time.Now(), Recreation: true}.String("orders")
				vh.SetPolicy(name, brokers.Policy{
					Pattern: fence.Pattern([]string{"orders"}), ApplyTo: "queues", Definition: map[string]any{"max-length": fence.Boundless},
				})
			},
			reason: recreate.SharedVHost, says: "another instance",
		},
		"too many bindings": {
			setup: func(vh *brokers.VHost) {
				for i := range recreate.MaxBindings {
					vh.Bind("direct", "orders", fmt.Sprint(i), nil)
				}
			},
			reason: recreate.TooManyBindings, says: `queue "orders" has 66 bindings; at most 64`,
		},
		"a binding of a queue without a hold": {
			change: func(rec *recreate.Recreation) { rec.WithoutHold = true }, reason: recreate.BoundQueue, says: `bound to exchange "direct"`,
		},
		"a queue that dead-letters to it at most once": {
			setup: holding(toOrders), change: moves, reason: recreate.LossyDeadLetters, says: `queue "source" dead-letters at most once to queue "orders"`,
		},
		"a queue that dead-letters to it at most once, and it waits until it is empty": {
			setup: holding(toOrders), reason: recreate.MessagesPending, says: `until queue "source" has no messages and no consumers`,
		},
		"a queue that dead-letters to it at least once": {setup: holding(atLeastOnce), change: moves},
		"a queue that drops messages, so its dead letters come at most once": {
			setup: holding(dropping), change: moves, reason: recreate.LossyDeadLetters, says: `queue "source" dead-letters at most once to queue "orders"`,
		},
		"a queue whose messages name the queue to dead-letter to": {
			setup:  holding(vhost.Arguments{vhost.ArgDeadLetterExchange: ""}),
			change: moves, reason: recreate.LossyDeadLetters, says: `queue "source" dead-letters at most once to queue "orders"`,
		},
		"a queue that dead-letters to itself": {arguments: toOrders, setup: oneReady},
		"dead letters of its own at most once": {
			arguments: deadLetterAtMostOnce, setup: oneReady, change: moves, reason: recreate.LossyDeadLetters, says: "its messages are moved",
		},
		"dead letters of its own at most once, and it waits until it is empty": {arguments: deadLetterAtMostOnce, setup: oneReady},
		"few deliveries": {
			arguments: fewDeliveries, setup: oneReady, change: moves, reason: recreate.LossyDeliveries, says: "delivered 4 times",
		},
		"few deliveries, and it waits until it is empty": {arguments: fewDeliveries, setup: oneReady},
		"a fence of a recreation whose status was lost": { // the consumer may be the channel that deletes the queue
			setup: func(vh *brokers.VHost) {
				name := fence.Name{Owner: rabbittest.ConfigOf(vh).Owner, Begun: time.Now(), Recreation: true}.String("orders")
				closed := fence.Fence{Queues: []string{"orders"}}.Closed()
				vh.SetPolicy(name, brokers.Policy{Pattern: fence.Pattern([]string{"orders"}), ApplyTo: "queues", Definition: closed})
				rabbittest.Holding(t, vh, func(channel *amqp.Channel) error {
					_, err := channel.Consume("orders", "", false, false, false, false, nil)
					return err
				})
			},
			says: "may still be deleting",
		},
		"a user without rights on the names of Warren": {
			rights: withoutNames, reason: recreate.MissingPermission, says: `configure permission for some names that match ^warren-(hold|backlog|back|probe)-`,
		},
		"a user that may not write one of them": {
			rights: []string{".*", `^(orders|amq\.default|warren-(hold|backlog|probe)-)`, ".*"},
			reason: recreate.MissingPermission, says: "lacks the write or read permission",
		},
		"a user that may not read one of them": {
			rights: []string{".*", ".*", "^(orders|amq|warren-(hold|back|probe)-)"}, reason: recreate.MissingPermission, says: "lacks the write or read permission",
		},
		"a user with the rights that the documentation names": {
			rights: []string{
				`^(orders($|\.)|warren-(link|hold|backlog|back|probe)-)`, `^(orders($|\.)|amq\.default$|warren-(hold|backlog|back|probe)-)`,
				`^(orders($|\.)|shop$|warren-(hold|backlog|back|probe)-)`,
			},
		},
		"a user with rights on the only name of a tier's recreation": {
			setup: func(vh *brokers.VHost) {
				vh.DeleteQueue("orders")
				vh.DeclareQueue("orders", rabbittest.Quorum(nil))
			},
			change: func(rec *recreate.Recreation) { rec.WithoutHold = true },
			rights: []string{"^(orders|warren-probe-)", "^(orders|amq|warren-probe-)", "^(orders|warren-probe-)"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, test.arguments)
				if test.setup != nil {
					test.setup(vh)
				}
				rec := recreation(t, vh, nil).record.Recreation
				if test.change != nil {
					test.change(&rec)
				}
				config := rabbittest.ConfigOf(vh)
				if test.rights != nil {
					config = limitedConfig(t, vh, test.rights)
				}
				connection := rabbittest.Connected(t, config, nil)
				before := vh.Definitions()
				err := connection.Recreator(connection.Health().Cluster.Key()).Check(t.Context(), rec)
				isRefused := err != nil && test.says != "" && strings.Contains(err.Error(), test.says)
				if recreate.ReasonOf(err) != test.reason || isRefused != (test.says != "") || isRefused != (err != nil) {
					t.Errorf("%q: %v", recreate.ReasonOf(err), err)
				}
				if difference := cmp.Diff(before, vh.Definitions()); difference != "" {
					t.Errorf("it has changed something:\n%s", difference)
				}
			})
		})
	}
}
