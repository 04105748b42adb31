package main

import (
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/netfault"
)

func noReconnect(t *trial) {
	const cuts = 3
	t.sendAll(120, "slow:20")
	t.start()
	for cut := 1; cut <= cuts; cut++ {
		if !t.until(t.event, func() bool { return t.journal.successes() >= 25*cut }) {
			return
		}
		t.proxy.Cut()
	}
	t.settle()
	t.expectRepeated(cuts * prefetch)
}

// expectRepeated adds a mistake if more messages were handled again than could be unsettled.
func (t *trial) expectRepeated(maxRepeated int) {
	repeated := 0
	for _, m := range t.sent {
		repeated += max(0, t.journal.handled(m.id)-1)
	}
	if repeated > maxRepeated {
		t.addMistake("%d messages were handled again, but at most %d were unsettled", repeated, maxRepeated)
	}
}

func secondConsumer(t *trial) {
	t.start()
	t.handleOne()
	before := t.consumers()
	if before == 0 {
		t.addMistake("the program has no consumer, although it has handled a message: it polls the queue with basic.get")
	}
	for range 2 {
		t.proxy.Cut()
		t.handleOne()
	}
	const stable = 3 * time.Second // a program may consume twice only after a pause
	count, since := 0, time.Now()
	fits := func() bool {
		if count = t.consumers(); count > before {
			since = time.Now()
		}
		return time.Since(since) >= stable
	}
	if !t.until(10*time.Second, fits) {
		t.addMistake("the program has %d consumers, but had %d before its connections were closed", count, before)
	}
}

// handleOne sends a message and waits until the program has handled it.
func (t *trial) handleOne() {
	t.send("ok")
	t.settle()
}

// consumers returns the number of consumers of the main queue.
func (t *trial) consumers() int {
	connection, err := t.vhost.Connect("warren-conformance")
	t.check(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	t.check(err)
	queue, err := channel.QueueDeclarePassive(t.contract.Queue, true, false, false, false, nil)
	t.check(err)
	return queue.Consumers
}

func hotReconnect(t *trial) {
	t.proxy.Refuse()
	t.launch()
	if !t.until(t.limits.start+t.event, func() bool { return t.proxy.Accepted() > 2 }) {
		t.addMistake("the program tried to connect only %d times while the broker was down", t.proxy.Accepted())
		return
	}
	t.proxy.Accept()
	t.handleOne()
	t.proxy.Refuse()
	before := t.proxy.Accepted()
	const length = 5 * time.Second
	t.pause(length)
	// Two connections, with a quarter of a second between tries.
	if tries, maxTries := t.proxy.Accepted()-before, 40; tries > maxTries {
		t.addMistake("the program tried to connect %d times within %s", tries, length)
	}
	t.proxy.Accept()
	t.handleOne()
}

// staleAcks closes the connection while handlers run. When they return, the program has a new channel, where their delivery tags
// belong to messages that no handler has begun. If the program settles such a message, it is lost when the program is killed.
func staleAcks(t *trial) {
	t.start()
	t.sendAll(concurrency, "ok") // so that tags differ on the new channel
	t.settle()
	t.sendAll(prefetch, "slow:4000")
	t.until(t.anyEvent, func() bool { return t.journal.started() >= 2*concurrency })
	t.proxy.Cut()
	t.until(t.event, func() bool { return t.journal.successes() >= 2*concurrency })
	t.pause(100 * time.Millisecond) // for the acknowledgements
	t.restart()
}

// hangsOnConnect makes the broker silent on the first connection. The program does not learn that the broker ends this connection.
func hangsOnConnect(t *trial) {
	const timeout = time.Minute
	silent := atomic.Bool{}
	t.intercept(func(f netfault.Frame) netfault.Verdict {
		if f.Method == amqpmethod.ConnectionStart && silent.CompareAndSwap(false, true) {
			t.proxy.Stall()
			return netfault.Drop
		}
		return netfault.Pass
	})
	t.send("ok")
	t.launch()
	t.until(t.limits.start, silent.Load)
	t.until(timeout, func() bool { return len(t.missing()) == 0 })
}

func missesStall(t *trial) {
	t.start()
	t.handleOne()
	t.proxy.Stall()
	t.sendAll(3, "ok")
	const timeout = 60 * time.Second // a program notices missing heartbeats after at most three times 5 s
	t.until(timeout, func() bool { return len(t.missing()) == 0 })
}

// missesCancel deletes the queue, so that the broker cancels the consumer. Then it repeats an acknowledgement of the program, so that
// the broker closes the channel and not the connection.
func missesCancel(t *trial) {
	repeats := atomic.Bool{}
	t.intercept(func(f netfault.Frame) netfault.Verdict {
		if !f.FromBroker && f.Method == amqpmethod.BasicAck && repeats.CompareAndSwap(true, false) {
			return netfault.Repeat
		}
		return netfault.Pass
	})
	t.start()
	t.handleOne()
	t.vhost.DeleteQueue(t.contract.Queue)
	t.pause(time.Second)
	t.declare()
	t.handleOne()
	if len(t.missing()) > 0 {
		t.addMistake("the program did not consume again after the broker cancelled its consumer")
		return
	}
	t.provoked = 1
	repeats.Store(true)
	t.handleOne()
	if !t.until(t.event, func() bool { return t.unknownTags.Load() > 0 }) {
		t.addMistake("the program did not acknowledge a message that it has handled")
	}
	t.handleOne()
	if len(t.missing()) > 0 {
		t.addMistake("the program did not consume again after the broker closed its channel")
	}
}

func brokerRestart(t *trial) {
	t.sendAll(60, "slow:20")
	t.start()
	t.until(t.anyEvent, func() bool { return t.journal.successes() >= 10 })
	t.private.Stop()
	t.private.Start()
	t.handleOne() // all others may have been handled before the broker had stopped
	t.expectRepeated(2 * prefetch)
}
