package traffic_test

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/traffic"
)

var quorum = map[string]any{"x-queue-type": "quorum"}

// eachBroker runs a test on every broker, each in its own vhost.
func eachBroker(t *testing.T, body func(t *testing.T, vhost *brokers.VHost)) {
	t.Helper()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			body(t, broker.NewVHost(t))
		})
	}
}

// eventually polls until ask returns true.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	end := time.Now().Add(deadline.For(30 * time.Second))
	for !ask() {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

func TestConsumedMessagesAreAccountedFor(t *testing.T) {
	eachBroker(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("orders", quorum)
		publisher := traffic.Publish(t, vhost, traffic.Publishing{Targets: []traffic.Target{traffic.ToQueue("orders")}, Count: 500})
		consumer := traffic.Consume(t, vhost, "orders", nil)
		publisher.Wait(t, deadline.For(30*time.Second))
		eventually(t, "all are consumed", func() bool { return len(consumer.Consumed()) == 500 })
		report := traffic.Account(t, vhost, traffic.Accounting{
			Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
		})
		report.NoneLost(t)
		if report.Confirmed != 500 || report.Consumed != 500 || len(report.Found) != 0 {
			t.Errorf("report: %+v", report)
		}
	})
}

func TestAPurgedMessageIsReportedLost(t *testing.T) {
	eachBroker(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("orders", quorum)
		to := []traffic.Target{traffic.ToQueue("orders")}
		lost := traffic.Publish(t, vhost, traffic.Publishing{Targets: to, Count: 3})
		lost.Wait(t, deadline.For(30*time.Second))
		vhost.Purge("orders")
		kept := traffic.Publish(t, vhost, traffic.Publishing{Targets: to, Count: 2})
		kept.Wait(t, deadline.For(30*time.Second))
		report := traffic.Account(t, vhost, traffic.Accounting{
			Publishers: []*traffic.Publisher{lost, kept}, Quiet: 500 * time.Millisecond,
		})
		err := report.Err()
		if err == nil || !strings.HasPrefix(err.Error(), "3 of 5 confirmed messages are lost (0 were consumed, queues held map[orders:2]): ") {
			t.Fatalf("error %v", err)
		}
		for _, id := range lost.Confirmed() {
			if !strings.Contains(err.Error(), id) {
				t.Errorf("%s is not named in: %v", id, err)
			}
		}
	})
}

func TestUnroutableMessagesAreReturnedAndNotConfirmed(t *testing.T) {
	eachBroker(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("orders", quorum)
		publisher := traffic.Publish(t, vhost, traffic.Publishing{
			Targets: []traffic.Target{{Exchange: "amq.direct", RoutingKey: "nowhere"}, traffic.ToQueue("orders")}, Count: 100,
		})
		publisher.Wait(t, deadline.For(30*time.Second))
		if counts := publisher.Counts(); counts != (traffic.Counts{Made: 100, Confirmed: 50, Returned: 50}) {
			t.Errorf("counts: %+v", counts)
		}
		report := traffic.Account(t, vhost, traffic.Accounting{Publishers: []*traffic.Publisher{publisher}})
		report.NoneLost(t)
		if report.Found["orders"] != 50 {
			t.Errorf("report: %+v", report)
		}
	})
}

func TestNacksAreCountedAndRetried(t *testing.T) {
	eachBroker(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("narrow", map[string]any{"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"})
		vhost.Publish("", "narrow", "first", "second") // the limit applies after the second message
		publisher := traffic.Publish(t, vhost, traffic.Publishing{
			Targets: []traffic.Target{traffic.ToQueue("narrow")}, Count: 100, Retry: true,
		})
		eventually(t, "some are refused", func() bool { return publisher.Counts().Refusals > 0 })
		consumer := traffic.Consume(t, vhost, "narrow", nil)
		publisher.Wait(t, deadline.For(30*time.Second))
		if counts := publisher.Counts(); counts.Confirmed != 100 || counts.Unsettled != 0 {
			t.Errorf("counts: %+v", counts)
		}
		traffic.Account(t, vhost, traffic.Accounting{
			Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
		}).NoneLost(t)
	})
}

func TestReturnedMessagesAreRetriedOnRequest(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	publisher := traffic.Publish(t, vhost, traffic.Publishing{
		Targets: []traffic.Target{traffic.ToQueue("late")}, Count: 20, Retry: true, RetryReturned: true,
	})
	eventually(t, "some are returned", func() bool { return publisher.Counts().Refusals > 0 })
	vhost.DeclareQueue("late", quorum)
	publisher.Wait(t, deadline.For(30*time.Second))
	counts := publisher.Counts()
	counts.Refusals = 0 // they depend on when the queue is there
	if counts != (traffic.Counts{Made: 20, Confirmed: 20}) {
		t.Errorf("counts: %+v", counts)
	}
}

func TestNackedMessagesAreNotRetriedByDefault(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("shut", map[string]any{"x-queue-type": "quorum", "x-max-length": 0, "x-overflow": "reject-publish"})
	vhost.Publish("", "shut", "first") // the limit applies after the first message
	publisher := traffic.Publish(t, vhost, traffic.Publishing{
		Targets: []traffic.Target{traffic.ToQueue("shut")}, Count: 100, Every: 2 * time.Millisecond,
	})
	publisher.Wait(t, deadline.For(30*time.Second))
	counts := publisher.Counts()
	if counts.Refusals == 0 || counts.Refusals != counts.Unsettled || counts.Confirmed+counts.Unsettled != 100 {
		t.Errorf("counts: %+v", counts)
	}
}

func TestRetriesThroughATier(t *testing.T) {
	eachBroker(t, func(t *testing.T, vhost *brokers.VHost) {
		back := map[string]any{
			"x-queue-type": "quorum", "x-message-ttl": 100,
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}
		vhost.DeclareQueue("orders", map[string]any{
			"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dlq",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		})
		vhost.DeclareQueue("orders.tier", back)
		vhost.DeclareQueue("orders.dlq", quorum)
		publisher := traffic.Publish(t, vhost, traffic.Publishing{Targets: []traffic.Target{traffic.ToQueue("orders")}, Count: 40})
		consumer := traffic.Consume(t, vhost, "orders", func(d traffic.Delivery) traffic.Action {
			switch {
			case strings.HasSuffix(d.ID, "0"): // four of them always fail
				return traffic.Reject
			case d.Attempt < 3:
				return traffic.Retry(traffic.ToQueue("orders.tier"))
			}
			return traffic.Ack
		})
		publisher.Wait(t, deadline.For(30*time.Second))
		eventually(t, "all but the hopeless are consumed", func() bool { return len(consumer.Consumed()) == 36 })
		eventually(t, "the hopeless are dead", func() bool { return vhost.Ready("orders.dlq") == 4 })
		report := traffic.Account(t, vhost, traffic.Accounting{
			Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
		})
		report.NoneLost(t)
		if report.Consumed != 36 || report.Found["orders.dlq"] != 4 || consumer.Deliveries() < 36*3+4 {
			t.Errorf("%d deliveries, report: %+v", consumer.Deliveries(), report)
		}
	})
}

func TestRequeuedAndHeldMessagesAreNotLost(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("orders", quorum)
	publisher := traffic.Publish(t, vhost, traffic.Publishing{Targets: []traffic.Target{traffic.ToQueue("orders")}, Count: 30})
	holder := traffic.Consume(t, vhost, "orders", func(d traffic.Delivery) traffic.Action {
		if d.Redelivered {
			return traffic.Hold
		}
		return traffic.Requeue
	})
	publisher.Wait(t, deadline.For(30*time.Second))
	eventually(t, "all are held", func() bool { return holder.Deliveries() == 60 })
	report := traffic.Account(t, vhost, traffic.Accounting{
		Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{holder},
	})
	report.NoneLost(t)
	if report.Consumed != 0 || report.Found["orders"] != 30 {
		t.Errorf("report: %+v", report)
	}
}

func TestLostConnectionsAndALateQueue(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	consumer := traffic.Consume(t, vhost, "orders", nil)
	vhost.DeclareQueue("orders", quorum)
	publisher := traffic.Publish(t, vhost, traffic.Publishing{
		Targets: []traffic.Target{traffic.ToQueue("orders")}, Every: time.Millisecond, Retry: true,
	})
	// The management API shows a connection only after seconds.
	eventually(t, "the publisher's connection is closed", func() bool { return vhost.Broker.CloseConnections(t, publisher.Name()) > 0 })
	eventually(t, "the consumer's connection is closed", func() bool { return vhost.Broker.CloseConnections(t, consumer.Name()) > 0 })
	sent := publisher.Counts().Made
	eventually(t, "both are back", func() bool {
		return publisher.Sessions() > 1 && consumer.Sessions() > 1 && publisher.Counts().Confirmed > sent
	})
	traffic.Account(t, vhost, traffic.Accounting{
		Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
	}).NoneLost(t)
	if counts := publisher.Counts(); counts.Made != counts.Confirmed {
		t.Errorf("messages without a confirm were not published again: %+v", counts)
	}
}

func TestAStoppedPublisherSettlesAllMessages(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("orders", quorum)
	publisher := traffic.Publish(t, vhost, traffic.Publishing{Targets: []traffic.Target{traffic.ToQueue("orders")}, Retry: true})
	eventually(t, "more is confirmed than waits at a time", func() bool { return publisher.Counts().Confirmed > 1000 })
	publisher.Stop()
	if counts := publisher.Counts(); counts.Made != counts.Confirmed {
		t.Errorf("counts: %+v", counts)
	}
}

var sentinel = amqp.Publishing{Type: traffic.Sentinel}

func TestSentinelsAreCountedSeparately(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("orders", quorum)
	vhost.DeclareQueue("other", quorum)
	for _, queue := range []string{"orders", "orders", "other"} {
		vhost.Send("", queue, sentinel)
	}
	consumer := traffic.Consume(t, vhost, "orders", nil)
	publisher := traffic.Publish(t, vhost, traffic.Publishing{Targets: []traffic.Target{traffic.ToQueue("orders")}, Count: 5})
	publisher.Wait(t, deadline.For(30*time.Second))
	eventually(t, "all have come", func() bool { return consumer.Deliveries() == 5 && consumer.Sentinels() == 2 })
	report := traffic.Account(t, vhost, traffic.Accounting{
		Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
	})
	report.NoneLost(t)
	if report.Consumed != 5 || report.SentinelsConsumed != 2 || report.SentinelsLeft != 1 || len(report.Found) != 0 {
		t.Errorf("report: %+v", report)
	}
}

func TestDrainReturnsTheMessagesOfEachQueue(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("a", quorum)
	vhost.DeclareQueue("b", quorum)
	publisher := traffic.Publish(t, vhost, traffic.Publishing{
		Targets: []traffic.Target{traffic.ToQueue("a"), traffic.ToQueue("b")}, Count: 6,
	})
	publisher.Wait(t, deadline.For(30*time.Second))
	vhost.Send("", "a", sentinel)
	found, sentinels := traffic.Drain(t, vhost, 300*time.Millisecond, "a", "absent")
	if len(found) != 1 || len(found["a"]) != 3 || sentinels != 1 || vhost.Ready("b") != 3 {
		t.Errorf("found %v and %d sentinels, and %d stay", found, sentinels, vhost.Ready("b"))
	}
}
