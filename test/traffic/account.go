package traffic

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// Accounting configures Account.
type Accounting struct {
	Publishers []*Publisher
	Consumers  []*Consumer
	// Queues are the queues to drain; all queues of the vhost if empty. Queues that do not exist are ignored.
	Queues []string
	// Quiet is for how long no message may arrive before missing messages count as lost; 0 is 15 seconds.
	Quiet time.Duration
}

// Report is the result of Account.
type Report struct {
	// Confirmed is the number of messages that the broker confirmed and did not return.
	Confirmed int
	// Consumed is the number of confirmed messages that consumers processed.
	Consumed int
	// Found is the number of confirmed messages in each queue. A message with copies in two queues counts in both.
	Found map[string]int
	// Missing are the IDs of lost messages.
	Missing []string
	// Duplicates is how often a message was processed again, by the same consumer or another one.
	Duplicates int
	// Sentinels is the number of Warren's own messages that consumers received or that were in queues.
	SentinelsConsumed, SentinelsLeft int
}

// Account stops the publishers and consumers, drains the queues, and reports which confirmed messages were neither consumed nor
// in a queue. It returns as soon as all messages were found.
func Account(tb testing.TB, vhost *brokers.VHost, of Accounting) Report {
	tb.Helper()
	report := Report{Found: map[string]int{}}
	missing := map[string]bool{}
	for _, p := range of.Publishers {
		p.Stop()
		for _, id := range p.Confirmed() {
			missing[id] = true
		}
	}
	report.Confirmed = len(missing)
	consumed := map[string]bool{}
	for _, c := range of.Consumers {
		c.Stop()
		report.Duplicates += c.Duplicates()
		report.SentinelsConsumed += c.Sentinels()
		for _, id := range c.Consumed() {
			if consumed[id] {
				report.Duplicates++
			}
			consumed[id] = true
			delete(missing, id)
		}
	}
	report.Consumed = report.Confirmed - len(missing)
	quiet := of.Quiet
	if quiet == 0 {
		quiet = deadline.For(15 * time.Second)
	}
	drain(tb, vhost, of.Queues, quiet, func() bool { return len(missing) == 0 }, func(queue string, delivery amqp.Delivery) {
		if delivery.Type == Sentinel {
			report.SentinelsLeft++
			return
		}
		report.Found[queue]++
		delete(missing, delivery.MessageId)
	})
	for id := range missing {
		report.Missing = append(report.Missing, id)
	}
	slices.Sort(report.Missing)
	return report
}

// Drain removes the messages from queues, by default all queues of the vhost, until none arrives for quiet. It returns the
// IDs of the messages by queue, and how many of Warren's sentinels it has removed besides them.
func Drain(
	tb testing.TB, vhost *brokers.VHost, quiet time.Duration, queues ...string,
) (found map[string][]string, sentinels int) {
	tb.Helper()
	found = map[string][]string{}
	drain(tb, vhost, queues, quiet, func() bool { return false }, func(queue string, delivery amqp.Delivery) {
		if delivery.Type == Sentinel {
			sentinels++
			return
		}
		found[queue] = append(found[queue], delivery.MessageId)
	})
	return found, sentinels
}

// heldLimit is how long RabbitMQ may retain a dead letter before it routes it. After a restart, it routes some only after 180 or
// 360 s.
const heldLimit = 400 * time.Second

// drain consumes queues until no message is missing and no queue has a ready message, or until nothing arrived for quiet. A busy
// broker may deliver ready messages later. Dead letters that a queue retains arrive within heldLimit.
func drain(
	tb testing.TB, vhost *brokers.VHost, queues []string, quiet time.Duration, complete func() bool, take func(string, amqp.Delivery),
) {
	tb.Helper()
	var (
		connection *amqp.Connection
		deliveries <-chan drained
		total      int
		err        error
	)
	brokers.Persist(func() bool {
		if connection, err = vhost.Connect("drain-" + rand.Text()[:8]); err == nil {
			deliveries, total, err = subscribe(vhost, connection, existing(vhost, queues))
		}
		if err != nil && connection != nil {
			_ = connection.Close()
		}
		// A busy broker lists a quorum queue while it starts it, and removes the queue if it does not start in time.
		return !brokers.IsBusy(err) && !brokers.IsNotFound(err)
	})
	if err != nil {
		tb.Fatalf("drain vhost %q: %v", vhost.Name, err)
	}
	defer func() { _ = connection.Close() }()
	patience := func() time.Duration {
		if total > 0 {
			return max(quiet, deadline.For(15*time.Second))
		}
		return quiet
	}
	began := time.Now()
	timer := time.NewTimer(patience())
	defer timer.Stop()
	for total > 0 || !complete() {
		select {
		case one := <-deliveries:
			take(one.queue, one.Delivery)
			total--
			if err := one.Ack(false); err != nil {
				tb.Fatalf("drain queue %q: %v", one.queue, err)
			}
			timer.Reset(patience())
		case <-timer.C:
			if time.Since(began) > heldLimit || vhost.Held() == 0 {
				return
			}
			timer.Reset(patience())
		}
	}
}

// existing returns the queues that exist.
func existing(vhost *brokers.VHost, queues []string) []string {
	var names []string
	for _, queue := range vhost.Definitions().Queues {
		if len(queues) == 0 || slices.Contains(queues, queue.Name) {
			names = append(names, queue.Name)
		}
	}
	return names
}

type drained struct {
	amqp.Delivery

	queue string
}

// subscribe consumes all queues, and returns the number of messages that were ready before. It ends with the connection.
func subscribe(vhost *brokers.VHost, connection *amqp.Connection, queues []string) (<-chan drained, int, error) {
	merged := make(chan drained)
	channel, err := connection.Channel()
	if err != nil {
		return nil, 0, err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	ended := make(chan struct{})
	go func() {
		for range closed { // receives at most one reason
		}
		close(ended)
	}()
	total := 0
	for _, queue := range queues {
		total += vhost.Ready(queue)
		deliveries, err := channel.Consume(queue, "drain-"+queue, false, false, false, false, nil)
		if err != nil {
			return nil, 0, err
		}
		go func() {
			for delivery := range deliveries {
				select {
				case merged <- drained{delivery, queue}:
				case <-ended:
				}
			}
		}()
	}
	return merged, total, nil
}

// Err returns an error that lists the lost messages, or nil.
func (r Report) Err() error {
	if len(r.Missing) == 0 {
		return nil
	}
	const most = 50
	shown, more := r.Missing, ""
	if len(shown) > most {
		shown, more = shown[:most], fmt.Sprintf(" and %d more", len(r.Missing)-most)
	}
	return fmt.Errorf("%d of %d confirmed messages are lost (%d were consumed, queues held %v): %s%s",
		len(r.Missing), r.Confirmed, r.Consumed, r.Found, strings.Join(shown, " "), more)
}

// NoneLost fails the test if a confirmed message is lost, or if no message was confirmed.
func (r Report) NoneLost(tb testing.TB) {
	tb.Helper()
	if err := r.Err(); err != nil {
		tb.Fatal(err)
	}
	if r.Confirmed == 0 {
		tb.Fatal("no message was confirmed, so the test shows nothing")
	}
}
