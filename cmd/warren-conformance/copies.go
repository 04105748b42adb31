package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/netfault"
)

func changesCopies(t *trial) {
	const binary = "\xff\x00\xfe\x80" // neither an instruction nor text in UTF-8
	properties := amqp.Publishing{
		ContentType: "application/x-job", ContentEncoding: "utf-8", CorrelationId: "correlation", ReplyTo: "replies", Type: "job",
		AppId: "shop", Priority: 3, MessageId: "message", Timestamp: time.Unix(1_700_000_000, 0),
		Headers: amqp.Table{
			"trace": "7", "flag": true, "price": 2.5,
			"nested": amqp.Table{"list": []any{int32(1), "two", amqp.Table{"deep": true}}},
		},
	}
	permanent := t.sendMessage("permanent", true, properties)
	exhausted := t.sendMessage(never, true, properties)
	undecodable := t.sendMessage(binary, true, properties)
	t.start()
	t.settle()
	t.expectCopy(permanent, "permanent", properties, contract.KindPermanent, 1)
	t.expectCopy(exhausted, never, properties, contract.KindExhausted, t.contract.MaxAttempts)
	t.expectCopy(undecodable, binary, properties, contract.KindUndecodable, 0)
}

// mirror is a queue that receives each copy for a delay tier, too.
const mirror = "mirror"

func (t *trial) mirrorRetries() {
	t.vhost.DeclareQueue(mirror, map[string]any{"x-queue-type": "quorum"})
	for _, tier := range t.contract.Tiers {
		if t.contract.Strategy == contract.StrategyPublish {
			t.vhost.Bind(tier.Exchange, mirror, tier.RoutingKey, nil)
		}
	}
}

// readRetries removes and records the messages of the mirror.
func (t *trial) readRetries() {
	for _, retry := range t.take(mirror) {
		t.retries[idOf(retry)] = append(t.retries[idOf(retry)], retry)
	}
}

// expectCopy compares a dead letter with the message that was sent.
func (t *trial) expectCopy(id, verb string, sent amqp.Publishing, kind contract.FailureKind, attempts int) {
	if len(t.deadLetters[id]) == 0 {
		return // evaluate reports it
	}
	deadLetter := t.deadLetters[id][0]
	want := map[string]any{
		"body": strconv.Quote(verb + " " + id), "content-type": sent.ContentType, "content-encoding": sent.ContentEncoding,
		"correlation-id": sent.CorrelationId, "reply-to": sent.ReplyTo, "type": sent.Type, "app-id": sent.AppId, "priority": sent.Priority,
		"timestamp": sent.Timestamp.Unix(), "message-id": sent.MessageId, "delivery-mode": amqp.Persistent,
	}
	for name, value := range sent.Headers {
		want["header "+name] = value
	}
	got := map[string]any{
		"body": strconv.Quote(string(deadLetter.Body)), "content-type": deadLetter.ContentType,
		"content-encoding": deadLetter.ContentEncoding, "correlation-id": deadLetter.CorrelationId, "reply-to": deadLetter.ReplyTo,
		"type": deadLetter.Type, "app-id": deadLetter.AppId, "priority": deadLetter.Priority, "timestamp": deadLetter.Timestamp.Unix(),
		"message-id": deadLetter.MessageId, "delivery-mode": deadLetter.DeliveryMode,
	}
	for name, value := range map[string]any{
		contract.HeaderRetryCount: attempts, contract.HeaderOriginalExchange: "shop", contract.HeaderOriginalRoutingKey: "placed",
		contract.HeaderFailureKind: kind, contract.HeaderFailureQueue: t.contract.Queue,
	} {
		want["header "+name] = value
	}
	for name, value := range deadLetter.Headers {
		got["header "+name] = value
	}
	texts := []string{contract.HeaderCopyID, contract.HeaderFailureMessage, contract.HeaderFailureClient} // these are new in each copy
	for _, name := range append(texts, contract.HeaderFailureTime) {
		delete(want, "header "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if fmt.Sprint(got[name]) != fmt.Sprint(want[name]) { // the type of a number depends on the client
			t.addMistake("dead letter %s: %s is %v instead of %v", id, name, got[name], want[name])
		}
	}
	for _, name := range texts {
		if text, _ := deadLetter.Headers[name].(string); text == "" || text == sent.Headers[name] {
			t.addMistake("dead letter %s: header %s is %v instead of a new text", id, name, deadLetter.Headers[name])
		}
	}
	failed, _ := deadLetter.Headers[contract.HeaderFailureTime].(string)
	if _, err := time.Parse(time.RFC3339, failed); err != nil || failed == sent.Headers[contract.HeaderFailureTime] {
		t.addMistake("dead letter %s: header %s is %q instead of a new time in RFC 3339", id, contract.HeaderFailureTime, failed)
	}
}

func copiesTooMuch(t *trial) {
	const audit = "audit"
	t.vhost.DeclareQueue(audit, map[string]any{"x-queue-type": "quorum"})
	t.vhost.Bind("shop", audit, audit, nil)
	for _, route := range t.routes() {
		if route.Exchange != "" {
			t.vhost.Bind(route.Exchange, audit, audit, nil)
		}
	}
	t.mirrorRetries()
	cases := t.copyCases()
	for _, each := range cases {
		each.send(t, amqp.Publishing{Headers: amqp.Table{"CC": []any{audit}}})
		each.send(t, amqp.Publishing{Expiration: "600000"})
		each.send(t, amqp.Publishing{UserId: t.vhost.Broker.Username})
	}
	t.sendFatal(never) // the broker adds x-death if the message waits in a tier
	elsewhere := amqp.Publishing{Timestamp: time.Unix(1_700_000_000, 0), Headers: amqp.Table{
		contract.HeaderFailureQueue: "other", contract.HeaderFailureKind: "timeout", contract.HeaderFailureMessage: "failed in other",
		contract.HeaderFailureClient: "other", contract.HeaderFailureTime: "2020-01-02T03:04:05Z", contract.HeaderRetryCount: int64(3),
	}}
	failedElsewhere := t.sendMessage("permanent", true, elsewhere)
	t.start()
	t.settle()
	t.readRetries()
	t.expectCopy(failedElsewhere, "permanent", elsewhere, contract.KindPermanent, 1)
	t.expectNoRouting(t.deadLetters)
	t.expectNoRouting(t.retries)
	if count := len(t.take(audit)); count != len(cases) {
		t.addMistake("queue audit, which is named in the CC headers of %d messages, has %d", len(cases), count)
	}
}

// notCopied matches the headers that no copy has.
var notCopied = regexp.MustCompile("^(CC|BCC|x-death|x-(first|last)-death-.*|x-delivery-count|x-acquired-count)$")

// expectNoRouting adds a mistake for each property or header of a copy that routes, counts or expires.
func (t *trial) expectNoRouting(copies map[string][]amqp.Delivery) {
	for _, id := range slices.Sorted(maps.Keys(copies)) {
		for _, copied := range copies[id] {
			for name := range copied.Headers {
				if notCopied.MatchString(name) {
					t.addMistake("a copy of message %s has the header %s", id, name)
				}
			}
			if copied.Expiration != "" {
				t.addMistake("a copy of message %s still expires, after %s ms", id, copied.Expiration)
			}
		}
	}
}

// copyCase is a reason for a copy. Programs often have different code for each of them.
type copyCase struct {
	verb  string // of the message
	queue string // of the copy
}

// copyCases returns the reasons for which the program publishes copies.
func (t *trial) copyCases() []copyCase {
	cases := []copyCase{{"permanent", t.contract.DeadLetterQueue}}
	if t.contract.Strategy == contract.StrategyPublish {
		cases = append(cases, copyCase{"fail:1", t.tierQueue(t.contract.Tiers[0])})
	}
	return cases
}

// send publishes a message of which the program must publish a copy, and returns its ID.
func (c copyCase) send(t *trial, properties amqp.Publishing) string {
	return t.sendMessage(c.verb, c.queue == t.contract.DeadLetterQueue, properties)
}

// sendCopied publishes a message for each reason for a copy, and returns their IDs.
func (t *trial) sendCopied() (ids []string) {
	for _, each := range t.copyCases() {
		ids = append(ids, each.send(t, amqp.Publishing{}))
	}
	return ids
}

func losesReturned(t *trial) {
	t.refuseCopies("while the queue for its copy did not exist", t.vhost.DeleteQueue)
}

func losesRefused(t *trial) {
	t.refuseCopies("while the queue for its copy was full", t.fill)
}

// fill replaces a queue by one that is full.
func (t *trial) fill(queue string) {
	t.vhost.DeleteQueue(queue)
	t.vhost.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum", "x-max-length": 0, "x-overflow": "reject-publish"})
	t.vhost.Publish("", queue, "filler") // a queue is full only while a message is in it
	for _, binding := range t.desired.Bindings {
		if binding.Destination == queue {
			t.vhost.Bind(binding.Source, binding.Destination, binding.RoutingKey, binding.Arguments)
		}
	}
}

// refuseCopies makes the broker refuse all copies, and then some of them. obstruct replaces a queue by one that takes no message.
func (t *trial) refuseCopies(when string, obstruct func(queue string)) {
	cases := t.copyCases()
	for _, each := range cases {
		obstruct(each.queue)
	}
	t.expectNoLoop(when, t.sendCopied()...)
	for _, each := range cases {
		t.vhost.DeleteQueue(each.queue)
	}
	t.declare()
	t.settle()
	if t.contract.Strategy == contract.StrategyPublish {
		t.refuseSome(t.tierQueue(t.contract.Tiers[0]), obstruct)
	}
}

// refuseSome makes the broker refuse some of the copies that the program has published. A program that publishes several copies at the
// same time must match each return and each confirm to its copy. The broker refuses the first copy. From then on the proxy retains the
// copies until all of them are published: one to refuse, two to accept, and one to refuse. RabbitMQ 4.3 confirms the accepted ones either
// before both others or after them, so the order of the confirms is never that of the copies.
func (t *trial) refuseSome(queue string, obstruct func(queue string)) {
	t.stop()
	obstruct(queue)
	refused, held := atomic.Bool{}, atomic.Int64{}
	proxy := t.intercept(func(f netfault.Frame) netfault.Verdict {
		switch {
		case f.FromBroker && (f.Method == amqpmethod.BasicReturn || f.Method == amqpmethod.BasicNack):
			refused.Store(true)
		case f.Method == amqpmethod.BasicPublish && refused.Load():
			held.Add(1)
			return netfault.Hold
		}
		return netfault.Pass
	})
	t.send("fail:1")
	t.start()
	t.until(t.anyEvent, func() bool { return held.Load() > 0 })
	// A program that publishes its copies one by one must not wait for long.
	const wait = time.Second
	accepted := []string{t.sendFatal("permanent"), t.sendFatal("permanent")}
	t.until(wait, func() bool { return held.Load() > 2 })
	t.send("fail:1")
	t.until(wait, func() bool { return held.Load() > 3 })
	proxy.Release()
	t.pause(wait)
	t.vhost.DeleteQueue(queue)
	t.declare()
	t.settle()
	for _, id := range accepted {
		if copies := len(t.deadLetters[id]); copies > 1 {
			t.addMistake("the program published %d copies of message %s, although the broker accepted the first one", copies, id)
		}
	}
}

// acksUnconfirmed ends the program while a copy waits for its confirm. First it kills the program, then it sends SIGTERM.
func acksUnconfirmed(t *trial) {
	t.holdCopy()
	t.restart()
	t.stop()
	t.holdCopy()
	t.terminate()
	t.address = t.direct
	t.start()
	t.settle()
}

// holdCopy starts the program with messages that fail. Their copies do not reach the broker.
func (t *trial) holdCopy() {
	t.sendCopied()
	published := atomic.Bool{}
	t.intercept(func(f netfault.Frame) netfault.Verdict {
		if f.Method != amqpmethod.BasicPublish {
			return netfault.Pass
		}
		published.Store(true)
		return netfault.Hold // no later frame of the channel reaches the broker
	})
	t.start()
	if !t.until(t.anyEvent, published.Load) {
		t.addMistake("the program published no copy of a failed message")
	}
	t.pause(2 * time.Second)
}

// oldContract replaces the delay tiers. The program has a minute to notice, because it reads the contract every 30 s.
func oldContract(t *trial) {
	t.start()
	t.handleOne()
	later := contract.Tier{Delay: contract.Duration(time.Second), Route: contract.Route{Exchange: "jobs.later", RoutingKey: "later"}}
	t.vhost.DeclareExchange(later.Exchange, "direct", nil)
	t.vhost.DeclareQueue("jobs.later", map[string]any{
		"x-queue-type": "quorum", "x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": t.contract.Queue,
	})
	t.vhost.Bind(later.Exchange, "jobs.later", later.RoutingKey, nil)
	gone := t.contract.Tiers[0].Exchange
	t.contract.Tiers = []contract.Tier{later}
	t.allow()
	t.writeContract()
	t.vhost.DeleteExchange(gone)
	t.send("fail:1")
	t.until(time.Minute+t.event, func() bool { return len(t.missing()) == 0 })
}

func forbiddenLoops(t *trial) {
	ids := t.sendCopied()
	t.forbid()
	t.expectNoLoop("while the broker forbade its copy", ids...)
	t.allow()
	t.settle()
}
