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
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

func changesCopies(t *trial) {
	const binary = "\xff\x00\xfe\x80" // neither an instruction nor text in UTF-8
	properties := amqp.Publishing{
		ContentType: "application/x-job", ContentEncoding: "utf-8", CorrelationId: "correlation", ReplyTo: "replies", Type: "job",
		AppId: "shop", Priority: 3, Timestamp: time.Unix(1_700_000_000, 0),
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

// expectCopy compares a dead letter with the message that was sent.
func (t *trial) expectCopy(id, verb string, sent amqp.Publishing, kind contract.FailureKind, attempts int) {
	if len(t.deadLetters[id]) == 0 {
		return // evaluate reports it
	}
	deadLetter := t.deadLetters[id][0]
	want := map[string]any{
		"body": strconv.Quote(verb + " " + id), "content-type": sent.ContentType, "content-encoding": sent.ContentEncoding,
		"correlation-id": sent.CorrelationId, "reply-to": sent.ReplyTo, "type": sent.Type, "app-id": sent.AppId, "priority": sent.Priority,
		"timestamp": sent.Timestamp.Unix(), "message-id": "message-" + id, "delivery-mode": amqp.Persistent,
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
	t.sendMessage("permanent", true, amqp.Publishing{Headers: amqp.Table{"CC": []any{audit}}})
	expiring := t.sendMessage("permanent", true, amqp.Publishing{Expiration: "600000"})
	t.sendMessage("permanent", true, amqp.Publishing{UserId: t.vhost.Broker.Username})
	t.sendFatal(never) // the broker adds x-death if the message waits in a tier
	elsewhere := amqp.Publishing{Timestamp: time.Unix(1_700_000_000, 0), Headers: amqp.Table{
		contract.HeaderFailureQueue: "other", contract.HeaderFailureKind: "timeout", contract.HeaderFailureMessage: "failed in other",
		contract.HeaderFailureClient: "other", contract.HeaderFailureTime: "2020-01-02T03:04:05Z", contract.HeaderRetryCount: int64(3),
	}}
	failedElsewhere := t.sendMessage("permanent", true, elsewhere)
	t.start()
	t.settle()
	t.expectCopy(failedElsewhere, "permanent", elsewhere, contract.KindPermanent, 1)
	t.expectNoRouting()
	if count := len(t.take(audit)); count != 1 {
		t.addMistake("queue audit, which is named in a CC header, has %d messages instead of 1", count)
	}
	for _, deadLetter := range t.deadLetters[expiring] {
		if left := deadLetter.Expiration; left != "" {
			t.addMistake("dead letter %s still expires, after %s ms", expiring, left)
		}
	}
}

// notCopied matches the headers that no copy has.
var notCopied = regexp.MustCompile("^(CC|BCC|x-death|x-(first|last)-death-.*|x-delivery-count|x-acquired-count)$")

// expectNoRouting adds a mistake for each header of a dead letter that routes or counts.
func (t *trial) expectNoRouting() {
	for _, id := range slices.Sorted(maps.Keys(t.deadLetters)) {
		for _, deadLetter := range t.deadLetters[id] {
			for name := range deadLetter.Headers {
				if notCopied.MatchString(name) {
					t.addMistake("dead letter %s has the header %s", id, name)
				}
			}
		}
	}
}

// copyTarget returns the queue for the copy of a failed message, and a function that sends such a message.
func (t *trial) copyTarget() (queue string, send func() string) {
	if t.contract.Strategy == contract.StrategyPublish {
		return t.tierQueue(t.contract.Tiers[0]), func() string { return t.send("fail:1") }
	}
	return t.contract.DeadLetterQueue, func() string { return t.sendFatal("permanent") }
}

func losesReturned(t *trial) {
	queue, send := t.copyTarget()
	t.vhost.DeleteQueue(queue)
	ids := []string{send()}
	if queue != t.contract.DeadLetterQueue {
		t.vhost.DeleteQueue(t.contract.DeadLetterQueue)
		ids = append(ids, t.sendFatal("permanent"))
	}
	t.expectNoLoop("while the queue for its copy did not exist", ids...)
	t.declare()
	t.settle()
	if queue != t.contract.DeadLetterQueue {
		t.returnSome(queue)
	}
}

// returnSome makes the broker return some of the copies that the program has published. A program that publishes several copies at the
// same time must match each return to its copy. The proxy retains the copies until all of them are published, so that the broker returns
// the later ones before it has confirmed the earlier ones, which it must write to disk.
func (t *trial) returnSome(queue string) {
	const together = 2
	t.stop()
	t.vhost.DeleteQueue(queue)
	published := atomic.Int64{}
	proxy := t.intercept(func(f netfault.Frame) netfault.Verdict {
		if f.FromBroker || f.Method != amqpmethod.BasicPublish {
			return netfault.Pass
		}
		published.Add(1)
		return netfault.Hold
	})
	accepted := []string{t.sendFatal("permanent"), t.sendFatal("permanent")}
	t.start()
	t.until(t.anyEvent, func() bool { return published.Load() > 0 })
	// A program that publishes its copies one by one must not wait for long.
	const wait = time.Second
	t.until(wait, func() bool { return published.Load() >= together })
	t.sendAll(together, "fail:1")
	t.until(wait, func() bool { return published.Load() >= 2*together })
	proxy.Release()
	t.pause(wait)
	t.declare()
	t.settle()
	for _, id := range accepted {
		if copies := len(t.deadLetters[id]); copies > 1 {
			t.addMistake("the program published %d copies of message %s, although the broker returned none of them", copies, id)
		}
	}
}

func losesRefused(t *trial) {
	// A queue is full only while a message is in it.
	t.vhost.Publish("", t.contract.DeadLetterQueue, "filler", "filler")
	full := brokers.Policy{
		Pattern: "^" + t.contract.DeadLetterQueue + "$", ApplyTo: "queues",
		Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
	}
	t.vhost.SetPolicy("full", full)
	t.pause(time.Second) // the policy reaches the queue asynchronously
	id := t.sendFatal("permanent")
	t.expectNoLoop("while the dead-letter queue was full", id)
	// The policy is not deleted: publishers can stay refused if it is deleted while the queue refuses messages.
	full.Definition["max-length"] = 1_000_000
	t.vhost.SetPolicy("full", full)
	t.settle()
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

// holdCopy starts the program with a message that fails. The copy of the message does not reach the broker.
func (t *trial) holdCopy() {
	_, send := t.copyTarget()
	send()
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
		t.addMistake("the program published no copy of the failed message")
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
	_, send := t.copyTarget()
	id := send()
	t.forbid()
	t.expectNoLoop("while the broker forbade its copy", id)
	t.allow()
	t.settle()
}
