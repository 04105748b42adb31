package memory

import (
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// queue is a quorum queue.
type queue struct {
	name      string
	ready     []*message
	consumers []*consumer
	unacked   int
	// expires is the TTL of messages; 0 is none.
	expires time.Duration
	// limit is the delivery limit; nil is none.
	limit *int
	// rejected and others are the routes for dead letters, by reason; nil drops them.
	rejected, others *contract.Route
	singleActive     bool
}

type message struct {
	content    amqp.Publishing
	exchange   string
	routingKey string
	// returns is how often the message was returned and counted. Dead-lettering keeps the count, as in RabbitMQ 4.3.
	returns     int
	redelivered bool
	deaths      []amqp.Table
}

// held returns how many messages wait or are unsettled. q may be nil.
func (q *queue) held() int {
	if q == nil {
		return 0
	}
	return len(q.ready) + q.unacked
}

func (b *Broker) enqueue(q *queue, m *message) {
	q.ready = append(q.ready, m)
	if q.expires > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(q.expires, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.expiring, timer)
			if at := slices.Index(q.ready, m); at >= 0 {
				q.ready = slices.Delete(q.ready, at, at+1)
				b.deadLetter(q, m, "expired", q.others)
			}
		})
		b.expiring[timer] = true
	}
	b.deliver(q)
}

// deadLetter moves a message to the route for dead letters. Without a route, the message is dropped.
func (b *Broker) deadLetter(q *queue, m *message, reason string, to *contract.Route) {
	if to == nil {
		return
	}
	next := b.route(to.Exchange, to.RoutingKey)
	if len(next) == 0 {
		return
	}
	m.recordDeath(q.name, reason)
	m.exchange, m.routingKey = to.Exchange, to.RoutingKey
	b.enqueue(next[0], m) // the default exchange has no other one
}

// recordDeath adds a death to x-death. There is one entry for each queue and reason, the latest first.
func (m *message) recordDeath(queue, reason string) {
	entry := amqp.Table{
		"queue": queue, "reason": reason, "count": int64(0), "exchange": m.exchange, "routing-keys": []any{m.routingKey},
		"time": time.Now(),
	}
	for at, death := range m.deaths {
		if death["queue"] == queue && death["reason"] == reason {
			entry = maps.Clone(death)
			m.deaths = slices.Delete(m.deaths, at, at+1)
			break
		}
	}
	count, _ := entry["count"].(int64)
	entry["count"] = count + 1
	m.deaths = slices.Insert(m.deaths, 0, entry)
}

// requeue returns a message to the head of its queue. If counts is true, the return counts towards the delivery limit.
func (b *Broker) requeue(q *queue, m *message, counts bool) {
	m.redelivered = true
	if counts {
		m.returns++
		if q.limit != nil && m.returns > *q.limit {
			b.deadLetter(q, m, "delivery_limit", q.others)
			return
		}
	}
	q.ready = slices.Insert(q.ready, 0, m)
}

// deliver sends waiting messages to consumers with free prefetch.
func (b *Broker) deliver(q *queue) {
	for len(q.ready) > 0 {
		c := q.next()
		if c == nil {
			return
		}
		m := q.ready[0]
		q.ready = q.ready[1:]
		q.unacked++
		c.channel.send(c, m)
	}
}

// next returns the consumer for the next message: the one with free prefetch that has waited longest, or nil.
func (q *queue) next() *consumer {
	for at, c := range q.consumers {
		if q.singleActive && at > 0 {
			return nil
		}
		if c.channel.unackedOf(c) < c.prefetch {
			if !q.singleActive {
				q.consumers = append(slices.Delete(q.consumers, at, at+1), c)
			}
			return c
		}
	}
	return nil
}

func (m *message) delivery() amqp.Delivery {
	headers := maps.Clone(m.content.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	if len(m.deaths) > 0 {
		entries := make([]any, len(m.deaths))
		for i, death := range m.deaths {
			entries[i] = maps.Clone(death)
		}
		headers["x-death"] = entries
		headers["x-last-death-queue"], headers["x-last-death-reason"] = m.deaths[0]["queue"], m.deaths[0]["reason"]
	}
	if m.returns > 0 {
		headers["x-delivery-count"] = int64(m.returns)
	}
	p := m.content
	return amqp.Delivery{
		Headers: headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration, MessageId: p.MessageId,
		Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId, Body: p.Body, Redelivered: m.redelivered,
		Exchange: m.exchange, RoutingKey: m.routingKey,
	}
}
