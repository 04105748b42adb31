package main

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

func changesCopies(t *trial) {
	properties := amqp.Publishing{
		ContentType: "application/x-job", CorrelationId: "correlation", Type: "job", AppId: "shop",
		Headers: amqp.Table{"trace": "7", "flag": true, "price": 2.5},
	}
	permanent := t.sendMessage("permanent", true, properties)
	exhausted := t.sendMessage(never, true, properties)
	t.start()
	t.settle()
	t.expectCopy(permanent, "permanent "+permanent, contract.KindPermanent, 1)
	t.expectCopy(exhausted, never+" "+exhausted, contract.KindExhausted, t.contract.MaxAttempts)
}

// expectCopy compares a dead letter with the message that was sent.
func (t *trial) expectCopy(id, body string, kind contract.FailureKind, attempts int) {
	if len(t.deadLetters[id]) == 0 {
		return // evaluate reports it
	}
	deadLetter := t.deadLetters[id][0]
	want := map[string]any{
		"body": body, "content-type": "application/x-job", "correlation-id": "correlation", "type": "job", "app-id": "shop",
		"message-id": "message-" + id, "delivery-mode": 2, "header trace": "7", "header flag": true, "header price": 2.5,
	}
	got := map[string]any{
		"body": string(deadLetter.Body), "content-type": deadLetter.ContentType, "correlation-id": deadLetter.CorrelationId,
		"type":   deadLetter.Type,
		"app-id": deadLetter.AppId, "message-id": deadLetter.MessageId, "delivery-mode": int(deadLetter.DeliveryMode),
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
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if fmt.Sprint(got[name]) != fmt.Sprint(want[name]) { // the type of a number depends on the client
			t.addMistake("dead letter %s: %s is %v instead of %v", id, name, got[name], want[name])
		}
	}
	for _, name := range []string{contract.HeaderCopyID, contract.HeaderFailureMessage, contract.HeaderFailureClient} {
		if text, _ := deadLetter.Headers[name].(string); text == "" {
			t.addMistake("dead letter %s: header %s is %v instead of a text", id, name, deadLetter.Headers[name])
		}
	}
	failed, _ := deadLetter.Headers[contract.HeaderFailureTime].(string)
	if _, err := time.Parse(time.RFC3339, failed); err != nil {
		t.addMistake("dead letter %s: header %s is %q instead of a time in RFC 3339", id, contract.HeaderFailureTime, failed)
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
	t.start()
	t.settle()
	if count := len(t.take(audit)); count != 1 {
		t.addMistake("queue audit, which is named in a CC header, has %d messages instead of 1", count)
	}
	for _, deadLetter := range t.deadLetters[expiring] {
		if left := deadLetter.Expiration; left != "" {
			t.addMistake("dead letter %s still expires, after %s ms", expiring, left)
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

func acksUnconfirmed(t *trial) {
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
	if !t.until(t.limit, published.Load) {
		t.addMistake("the program published no copy of the failed message")
	}
	t.pause(2 * time.Second)
	t.restart()
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
	t.until(time.Minute+t.limit, func() bool { return len(t.missing()) == 0 })
}

func forbiddenLoops(t *trial) {
	_, send := t.copyTarget()
	id := send()
	t.forbid()
	t.expectNoLoop("while the broker forbade its copy", id)
	t.allow()
	t.settle()
}
