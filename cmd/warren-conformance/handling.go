package main

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/netfault"
)

// never is a message that fails in more attempts than any contract of the trials allows.
const never = "fail:99"

func acksFirst(t *trial) {
	t.send("crash")
	t.sendAll(10, "slow:200")
	t.start()
	if !t.until(t.anyEvent, t.subject.HasEnded) {
		t.addMistake("the program did not exit when it handled the message \"crash\"")
		return
	}
	t.subject.kill()
	t.start()
	t.settle()
	if len(t.missing()) > 0 {
		return
	}
	// A client may write an acknowledgement a little after the handler has begun.
	t.sendAll(concurrency, "slow:2000")
	t.until(t.anyEvent, func() bool { return t.journal.started() == len(t.sent) })
	t.pause(500 * time.Millisecond)
	t.restart()
}

func wrongAttempts(t *trial) {
	retried := make([]string, 5)
	for i := range retried {
		retried[i] = t.sendMessage("fail:2", t.contract.MaxAttempts < 3, amqp.Publishing{})
	}
	exhausted := []string{t.sendFatal(never), t.sendFatal(never), t.sendFatal(never)}
	t.start()
	t.settle()
	for _, id := range retried {
		t.expectStarts(id, min(3, t.contract.MaxAttempts))
	}
	for _, id := range exhausted {
		t.expectStarts(id, t.contract.MaxAttempts)
	}
}

// expectStarts adds a mistake unless a message was handled want times.
func (t *trial) expectStarts(id string, want int) {
	if got := len(t.journal.startsOf(id)); got != want {
		t.addMistake("message %s was handled %d times instead of %d", id, got, want)
	}
}

func noDelay(t *trial) {
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = t.send(fmt.Sprint("fail:", min(3, t.contract.MaxAttempts-1)))
	}
	t.start()
	t.settle()
	shortest := map[int]time.Duration{} // by attempt
	for _, id := range ids {
		starts := t.journal.startsOf(id)
		for i := 1; i < len(starts); i++ {
			waited, want := starts[i].Sub(starts[i-1]), t.delay(i)/2 // half, because the journal is read a little late
			if waited < want {
				t.addMistake("message %s was handled again after %s instead of at least %s", id, waited.Round(time.Millisecond), want)
			}
			if least, known := shortest[i]; !known || waited < least {
				shortest[i] = waited
			}
		}
	}
	if t.contract.Strategy == contract.StrategyRequeue { // the consumer chooses the delay
		return
	}
	for attempt, waited := range shortest {
		if longest := t.delay(attempt) + 2*time.Second; waited > longest {
			t.addMistake("after attempt %d, each message waited for at least %s instead of %s",
				attempt, waited.Round(time.Millisecond), t.delay(attempt))
		}
	}
}

// delay returns the delay after an attempt.
func (t *trial) delay(attempt int) time.Duration {
	if t.contract.Strategy == contract.StrategyRequeue {
		return time.Duration(attempt) * 100 * time.Millisecond
	}
	return time.Duration(t.contract.Tiers[min(attempt, len(t.contract.Tiers))-1].Delay)
}

func retriesPermanent(t *trial) {
	ids := []string{t.sendFatal("permanent"), t.sendFatal("permanent"), t.sendFatal("nonsense"), t.sendFatal("nonsense")}
	t.send("ok")
	t.start()
	t.settle()
	for _, id := range ids {
		if starts := len(t.journal.startsOf(id)); starts > 1 {
			t.addMistake("message %s was handled %d times", id, starts)
		}
	}
}

func forgedCounts(t *trial) {
	verb, attempts := "fail:2", 3
	if t.contract.MaxAttempts < attempts {
		verb, attempts = "ok", 1
	}
	forged := []amqp.Table{
		{"x-retry-count": int64(-5)},
		{"x-retry-count": "7"},
		{"x-retry-count": 2.5},
		{"x-retry-count": int64(math.MaxInt64)},
		{"x-delivery-count": int64(50)},
		{"x-death": []any{amqp.Table{"queue": "other", "reason": "rejected", "count": int64(40)}}},
		{"x-retry-count": int64(3), "x-failure-queue": "other"},
	}
	ids := make([]string, 0, len(forged))
	for _, headers := range forged {
		ids = append(ids, t.sendMessage(verb, false, amqp.Publishing{Headers: headers}))
	}
	t.start()
	t.settle()
	for i, id := range ids {
		if got := len(t.journal.startsOf(id)); got != attempts {
			t.addMistake("message %s with forged count %d was handled %d times instead of %d", id, i+1, got, attempts)
		}
	}
}

// acksOthers settles messages in each way while the handler of an earlier message runs. It kills the program before that handler has
// returned. Then it does the same without killing the program, because a message that is rejected too early is not lost, but repeated.
func acksOthers(t *trial) {
	const successful = 10
	send := func() string {
		slow := t.send("slow:3000")
		t.sendAll(successful, "ok")
		for range 2 {
			t.sendFatal("permanent")
			t.sendMessage("fail:1", t.contract.MaxAttempts < 2, amqp.Publishing{})
		}
		return slow
	}
	send()
	t.start()
	t.until(t.event, func() bool { return t.journal.started() >= len(t.sent) && t.journal.successes() >= successful })
	t.pause(500 * time.Millisecond) // for copies and acknowledgements
	t.restart()
	slow := send()
	t.settle()
	t.expectStarts(slow, 1)
}

// blocksHeartbeats has handlers that run for longer than RabbitMQ waits for heartbeats, which is at most three intervals.
func blocksHeartbeats(t *trial) {
	const length = 16 * time.Second
	consuming := atomic.Int64{} // number of the connection
	proxy := t.intercept(func(f netfault.Frame) netfault.Verdict {
		if f.Method == amqpmethod.BasicDeliver {
			consuming.CompareAndSwap(0, int64(f.Connection))
		}
		return netfault.Pass
	})
	t.sendAll(concurrency, fmt.Sprint("slow:", length.Milliseconds()))
	t.start()
	t.until(length+t.event, func() bool { return len(t.missing()) == 0 })
	if len(t.missing()) == 0 && !proxy.IsOpen(int(consuming.Load())) {
		t.addMistake("the connection was closed while handlers ran for %s, although the network had no fault", length)
	}
	t.expectRepeated(0)
}

func blocksOnHang(t *trial) {
	t.send("hang")
	t.sendAll(20, "ok")
	t.start()
	if !t.until(t.event, func() bool { return t.journal.successes() >= 20 }) {
		t.addMistake("%d of 20 messages were handled while one handler of %d hung", t.journal.successes(), concurrency)
	}
	t.restart()
}

// restart kills the program and starts it again, so that the broker delivers its unsettled messages again.
func (t *trial) restart() {
	t.stop()
	t.address = t.direct
	t.start()
	t.settle()
}

// countFromBroker counts the frames with a method that the broker sends to the program from now on.
func (t *trial) countFromBroker(method amqpmethod.Method) *atomic.Int64 {
	count := &atomic.Int64{}
	t.intercept(func(f netfault.Frame) netfault.Verdict {
		if f.FromBroker && f.Method == method {
			count.Add(1)
		}
		return netfault.Pass
	})
	return count
}

func unboundedPrefetch(t *trial) {
	t.sendAll(prefetch, "hang")
	t.sendAll(50, "ok")
	delivered := t.countFromBroker(amqpmethod.BasicDeliver)
	t.start()
	t.until(t.anyEvent, func() bool { return t.journal.started() >= concurrency })
	t.pause(2 * time.Second)
	if got := delivered.Load(); got > prefetch {
		t.addMistake("the program received %d unsettled messages with a prefetch of %d", got, prefetch)
	}
	if got := t.journal.started(); got > concurrency {
		t.addMistake("the program handled %d messages at a time with a concurrency of %d", got, concurrency)
	}
	t.restart()
}

// breaksOrder has a single active consumer, and a program with one handler. After a lost connection, a second process takes over, as in
// a rolling update.
func breaksOrder(t *trial) {
	const (
		quick = 40 // messages of one process
		slow  = 6  // messages of both processes
		lag   = 500 * time.Millisecond
	)
	t.contract.SingleActiveConsumer = true
	t.redeclareMain(vhost.ArgSingleActiveConsumer, true)
	t.concurrency, t.prefetch = 1, 4
	t.sendAll(quick, "slow:20")
	t.start()
	t.until(t.event, func() bool { return t.journal.successes() >= quick/2 })
	t.proxy.Cut()
	t.settle()
	first := t.subject
	t.start()
	second := t.subject
	t.sendAll(slow, "slow:1000")
	t.until(t.anyEvent, func() bool { return t.journal.started() > quick })
	t.subject = first
	t.terminate()
	t.subject = second
	t.settle()
	if len(t.missing()) > 0 {
		return
	}
	for i, m := range t.sent[1:] {
		before := t.sent[i]
		tolerated := time.Duration(0)
		if i+1 >= quick {
			tolerated = lag // between the readers of two outputs
		}
		if early := t.journal.doneAt(before.id).Sub(t.journal.startsOf(m.id)[0]); early > tolerated {
			t.addMistake("the handler of message %s began %s before the handler of message %s had returned", m.id, early, before.id)
		}
	}
}

// noCrashGuard delivers a message as often as if it had ended a process each time. Another message is returned more often, but ends
// fewer processes.
func noCrashGuard(t *trial) {
	connection, err := t.vhost.Connect("warren-conformance")
	t.check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	t.check(err)
	get := func() amqp.Delivery {
		var delivery amqp.Delivery
		exists := false
		t.until(t.anyEvent, func() bool { // a requeued message is ready a little later
			delivery, exists, err = channel.Get(t.contract.Queue, false) //nolint:forbidigo // at most one message is ready
			return err != nil || exists
		})
		t.check(err)
		if !exists {
			t.check(errors.New("the message left the queue before it was delivered often enough"))
		}
		return delivery
	}
	t.send("ok")
	// RabbitMQ 4.3 counts basic.reject, and not basic.nack.
	for range contract.DefaultMaxCrashes {
		t.check(get().Nack(false, true)) //nolint:forbidigo // the same
	}
	for range contract.DefaultMaxCrashes / 2 {
		t.check(get().Reject(true)) //nolint:forbidigo // the same
	}
	get() // the message is ready again when the connection is closed
	id := t.sendFatal("ok")
	for range contract.DefaultMaxCrashes {
		t.check(get().Reject(true)) //nolint:forbidigo // the same
	}
	t.check(connection.Close())
	t.send("ok")
	t.start()
	t.settle()
	if len(t.journal.startsOf(id)) > 0 {
		t.addMistake("message %s was handled after %d deliveries that ended without a result", id, contract.DefaultMaxCrashes)
	}
}

// holdsTooLong has a short consumer timeout, and no queues for the copies of failed messages. These messages must be given back in time,
// because RabbitMQ otherwise cancels the consumer.
func holdsTooLong(t *trial) {
	timeout := contract.Duration(20 * time.Second) // of which 5 % are left, so that a busy machine is not a fault
	t.contract.ConsumerTimeout = &timeout
	t.redeclareMain(vhost.ArgConsumerTimeout, time.Duration(timeout).Milliseconds())
	for _, each := range t.copyCases() {
		t.vhost.DeleteQueue(each.queue)
	}
	ids := t.sendCopied()
	t.sendAll(10, "ok")
	cancelled := t.countFromBroker(amqpmethod.BasicCancel)
	t.start()
	for _, id := range ids {
		t.until(t.anyEvent, func() bool { return len(t.journal.startsOf(id)) > 0 })
	}
	t.pause(time.Duration(timeout) + 5*time.Second)
	if count := cancelled.Load(); count > 0 {
		t.addMistake("RabbitMQ cancelled the consumer %d times, because it held a message for longer than the consumer timeout of %s",
			count, time.Duration(timeout))
	}
	t.declare()
	t.settle()
}
