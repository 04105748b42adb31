package main

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/netfault"
)

// expectNoLoop starts the program while the broker does not take the copies of messages. It adds a mistake if the program handles a
// message, connects, or publishes in a hot loop. A loop without a pause makes hundreds of tries.
func (t *trial) expectNoLoop(when string, ids ...string) {
	const (
		length   = 5 * time.Second
		maxTries = 12 // of one kind, for each message
	)
	var published, opened atomic.Int64
	t.intercept(func(f netfault.Frame) netfault.Verdict {
		switch f.Method {
		case amqpmethod.BasicPublish:
			published.Add(1)
		case amqpmethod.ChannelOpen:
			opened.Add(1)
		}
		return netfault.Pass
	})
	t.start()
	for _, id := range ids {
		t.until(t.anyEvent, func() bool { return len(t.journal.startsOf(id)) > 0 })
	}
	connected := t.proxy.Accepted()
	t.pause(length)
	connected = t.proxy.Accepted() - connected
	for _, id := range ids {
		if starts := len(t.journal.startsOf(id)); starts > maxTries {
			t.addMistake("message %s was handled %d times %s", id, starts, when)
		}
	}
	for what, count := range map[string]int{
		"connected": connected, "published": int(published.Load()), "opened a channel": int(opened.Load()) / 2, // a connection may have two
	} {
		if count > maxTries*len(ids) {
			t.addMistake("the program %s %d times within %s for %d messages %s", what, count, length, len(ids), when)
		}
	}
}

// leaksChannels counts the connections and channels that the program opens to publish many copies.
func leaksChannels(t *trial) {
	const copies, maxOpen = 60, 20
	var mu sync.Mutex
	connections, channels := 0, map[channel]bool{}
	proxy := t.intercept(func(f netfault.Frame) netfault.Verdict {
		mu.Lock()
		defer mu.Unlock()
		switch f.Method {
		case amqpmethod.ConnectionOpen:
			connections++
		case amqpmethod.ChannelOpen:
			channels[channel{f.Connection, f.Channel}] = true
		case amqpmethod.ChannelClose:
			delete(channels, channel{f.Connection, f.Channel})
		}
		return netfault.Pass
	})
	for sent := 0; sent < copies; sent = len(t.sent) {
		t.sendCopied()
	}
	t.start()
	t.settle()
	mu.Lock()
	defer mu.Unlock()
	if connections > maxOpen {
		t.addMistake("the program opened %d connections to publish %d copies", connections, copies)
	}
	maps.DeleteFunc(channels, func(each channel, _ bool) bool { return !proxy.IsOpen(each.connection) })
	if len(channels) > maxOpen {
		t.addMistake("the program has %d open channels after it has published %d copies", len(channels), copies)
	}
}

// beyondConfirm is added to the limit of a trial in which the program waits for a confirm, commonly for 30 s.
const beyondConfirm = 15 * time.Second

// newCopyIDs cuts the connection of a confirm. The copy has arrived, but the program cannot know it, and publishes the copy again.
func newCopyIDs(t *trial) {
	const cuts = 2
	left := atomic.Int64{}
	left.Store(cuts)
	t.intercept(func(f netfault.Frame) netfault.Verdict {
		if f.FromBroker && f.Method == amqpmethod.BasicAck && left.Add(-1) >= 0 {
			return netfault.Cut
		}
		return netfault.Pass
	})
	t.mirrorRetries()
	t.start()
	for number, each := range t.copyCases() {
		left.Store(cuts)
		for range concurrency {
			each.send(t, amqp.Publishing{})
		}
		t.settle()
		arrived := func() bool {
			t.pause(100 * time.Millisecond) // each read opens a connection
			t.readDeadLetters()
			t.readRetries()
			return t.copies() >= len(t.sent)+cuts*(number+1)
		}
		if !t.until(t.event, arrived) {
			t.addMistake("%d confirms were lost with their connection, but the program published only %d copies again",
				cuts*(number+1), t.copies()-len(t.sent))
		}
	}
	t.expectSameCopyIDs(t.deadLetters)
	t.expectSameCopyIDs(t.retries)
}

// expectSameCopyIDs adds a mistake for each copy of a message that has another ID than its first copy, or none.
func (t *trial) expectSameCopyIDs(copies map[string][]amqp.Delivery) {
	for id, copied := range copies {
		first := copied[0].Headers[contract.HeaderCopyID]
		for _, each := range copied[1:] {
			if again := each.Headers[contract.HeaderCopyID]; again != first || again == nil {
				t.addMistake("message %s was copied with %s %v, and then with %v", id, contract.HeaderCopyID, first, again)
			}
		}
	}
}

// copies returns the number of copies that have arrived.
func (t *trial) copies() int {
	count := 0
	for _, copies := range []map[string][]amqp.Delivery{t.deadLetters, t.retries} {
		for _, each := range copies {
			count += len(each)
		}
	}
	return count
}

// twoChannels drops the first confirm. There is one message, so a second confirm means that the program has published its copy again.
func twoChannels(t *trial) {
	var (
		mu           sync.Mutex
		proxy        *netfault.FrameProxy
		first        *channel             // the channel of the dropped confirm
		closed       bool                 // the program has closed that channel
		beside       = map[channel]bool{} // whether that channel was open at the last basic.publish of each channel
		again, early bool                 // the copy was published again, and while that channel was open
	)
	mu.Lock() // the function reads proxy
	proxy = t.intercept(func(f netfault.Frame) netfault.Verdict {
		mu.Lock()
		defer mu.Unlock()
		on := channel{f.Connection, f.Channel}
		switch {
		case f.Method == amqpmethod.BasicPublish:
			beside[on] = first != nil && !closed && proxy.IsOpen(first.connection)
		case f.FromBroker && f.Method == amqpmethod.BasicAck && first == nil:
			first = &on
			return netfault.Drop
		case f.FromBroker && f.Method == amqpmethod.BasicAck && !again:
			again, early = true, beside[on]
		case first != nil && (f.Method == amqpmethod.ChannelClose && on == *first ||
			f.Method == amqpmethod.ConnectionClose && on.connection == first.connection):
			closed = true
		}
		return netfault.Pass
	})
	mu.Unlock()
	t.sendFatal("permanent")
	t.start()
	t.until(t.event+beyondConfirm, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return again
	})
	t.settle()
	mu.Lock()
	defer mu.Unlock()
	switch {
	case early:
		t.addMistake("the program published a copy again while the channel of the first one was open")
	case !again:
		t.addMistake("the program did not publish again a copy that the broker did not confirm")
	}
}

// stopsInAlarm sets an alarm, during which RabbitMQ reads nothing from a connection that publishes. When the alarm ends, RabbitMQ reads
// what each of these connections had sent, so a copy that was sent on two connections arrives twice.
func stopsInAlarm(t *trial) {
	const successful = 40
	length := min(t.event, defaults.event) + beyondConfirm // the trial waits for all of it
	failing := t.sendCopied()                              // fewer than there are handlers
	t.sendAll(successful, "ok")
	t.private.SetAlarm()
	defer t.private.ClearAlarm() // also if the trial ends early
	t.start()
	end := time.Now().Add(length)
	// Each acknowledgement makes room for a message, so almost all of them have arrived when all messages are handled.
	if !t.until(t.event, func() bool { return t.journal.successes() >= successful }) {
		t.addMistake("the program handled only %d of %d successful messages while the broker had an alarm",
			t.journal.successes(), successful)
	}
	t.pause(time.Until(end))
	t.private.ClearAlarm()
	t.settle()
	t.pause(3 * time.Second) // a second copy may wait in a delay tier
	t.readDeadLetters()
	t.expectRepeated(0)
	for _, id := range failing {
		if copies := max(len(t.journal.startsOf(id))-1, len(t.deadLetters[id])); copies > 1 {
			t.addMistake("%d copies of message %s arrived after the alarm", copies, id)
		}
	}
}
