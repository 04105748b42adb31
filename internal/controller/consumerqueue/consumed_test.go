package consumerqueue

import (
	"errors"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"

	amqp "github.com/rabbitmq/amqp091-go"
)

// others returns the state of a queue with other consumers in the last counts; noOthers that of a queue without other consumers.
func others(counts int) rabbit.Consumers   { return rabbit.Consumers{Others: true, Counts: counts} }
func noOthers(counts int) rabbit.Consumers { return rabbit.Consumers{Counts: counts} }

func TestIsConsumed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before bool
		known  rabbit.Consumers
		want   bool
	}{
		"no count yet": {false, rabbit.Consumers{}, false},
		"consumed before, and no count since a restart":             {true, rabbit.Consumers{}, true},
		"one count too few with a consumer":                         {false, others(countsUntilConsumed - 1), false},
		"enough counts with a consumer":                             {false, others(countsUntilConsumed), true},
		"consumed before, and still consumed":                       {true, others(1000), true},
		"consumed before, and a consumer is back":                   {true, others(1), true},
		"one count without a consumer":                              {false, noOthers(1), false},
		"consumed before, and one count too few without a consumer": {true, noOthers(countsUntilFree - 1), true},
		"consumed before, and enough counts without a consumer":     {true, noOthers(countsUntilFree), false},
		"consumers are not counted":                                 {false, rabbit.Consumers{Disabled: true}, false},
		"consumed before, and consumers are not counted any more":   {true, rabbit.Consumers{Disabled: true}, false},
	} {
		if got := isConsumed(test.before, test.known); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// setConsumers sets the other consumers of a queue, and reconciles the ConsumerQueue if the count concerns it.
func (w *world) setConsumers(queue string, known rabbit.Consumers) (written bool) {
	w.t.Helper()
	w.broker.SetConsumers(queue, known)
	return w.counted(nil)
}

// traps returns the advisories as one line.
func (w *world) traps() string {
	codes := []string{}
	for _, advisory := range w.get().Status.Advisories {
		codes = append(codes, string(advisory.Code)+" "+advisory.Name)
	}
	return strings.Join(codes, ", ")
}

const consumed = "DeadLetterQueueConsumed orders.dlq"

// The status is written when the advisory begins and when it ends, and for no count in between.
func TestConsumedInStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	ready := w.get().Status.Conditions
	for _, step := range []struct {
		name    string
		queue   string
		known   rabbit.Consumers
		written bool
		want    string
	}{
		{"others consume the main queue", "orders", others(100), false, ""},
		{"another consumer in one count", "orders.dlq", others(1), false, ""},
		{"another consumer in two counts", "orders.dlq", others(2), true, consumed},
		{"another consumer in three counts", "orders.dlq", others(3), false, consumed},
		{"no other consumer in nine counts", "orders.dlq", noOthers(9), false, consumed},
		{"the other consumer is back", "orders.dlq", others(1), false, consumed},
		{"no count", "orders.dlq", rabbit.Consumers{}, false, consumed},
		{"no other consumer in ten counts", "orders.dlq", noOthers(10), true, ""},
		{"no other consumer in eleven counts", "orders.dlq", noOthers(11), false, ""},
	} {
		topologytest.Equal(t, step.name+": written", step.written, w.setConsumers(step.queue, step.known))
		topologytest.Equal(t, step.name, step.want, w.traps())
	}
	topologytest.Equal(t, "conditions", ready, w.get().Status.Conditions)
}

// After a restart the advisory remains in the status until enough counts show no consumer.
func TestConsumedAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.setConsumers("orders.dlq", others(2))
	before := w.get()
	topologytest.Equal(t, "before", consumed, w.traps())
	w.restart()
	w.broker.SetConsumers("orders.dlq", rabbit.Consumers{})
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "version", before.ResourceVersion, w.get().ResourceVersion)
	w.broker.DisableCounts()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "where consumers are not counted", "", w.traps())
}

// An advisory ends if the dead-letter queue or the cluster changes.
func TestConsumedEndsWithTheQueueOrTheCluster(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"another cluster answers": func(w *world) {
			w.broker.SetHealth(func(h *rabbit.Health) { h.Cluster.Name, h.Cluster.Endpoint = "rabbit@other", "other:5672" })
		},
		"the spec names another queue": func(w *world) {
			w.edit(controllertest.ConsumerQueue(w.t, `{deadLetter: {queue: {name: graveyard}}}`).Spec)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			w.setConsumers("orders.dlq", others(2))
			change(w)
			w.broker.SetConsumers("orders.dlq", others(1))
			w.broker.Change(func(s *snapshot.Snapshot) { s.PutQueue("orders.dlq", vhost.Queue{Durable: true}) })
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(w.traps(), consumed) {
				t.Errorf("advisories: %s", w.traps())
			}
			requests := w.reconciler.queuesWithOutdatedCounts(t.Context(), controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}))
			topologytest.Equal(t, "enqueued because of a count", nil, requests)
		})
	}
}

// While the broker refuses to browse the dead-letter queue, an advisory reports it.
func TestARefusedBrowseIsAnAdvisory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	browse := func() {
		_, err := w.broker.Browse(t.Context(), w.broker.Health().Cluster.Key(), mover.BrowseConfig{
			Queue: "orders.dlq", Visit: func(int, *amqp.Delivery) bool { return true },
		})
		if err != nil && !errors.Is(err, brokererr.ErrAccessRefused) {
			t.Fatal(err)
		}
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.broker.Fail(vhost.QueueID("orders.dlq"), brokererr.New("access refused: no read", brokererr.ErrAccessRefused))
	browse()
	topologytest.Equal(t, "advisories", []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisoryRedriveImpossible, Name: "orders.dlq",
		Message: `dead letters cannot be browsed, moved or deleted: access refused: no read. The user of BrokerConnection "default" ` +
			`needs the permission read on queue "orders.dlq", and write on the exchange amq.default`,
	}}, w.get().Status.Advisories)
	w.broker.Fail(vhost.QueueID("orders.dlq"), nil)
	browse()
	topologytest.Equal(t, "after a browse that succeeded", "", w.traps())
}
