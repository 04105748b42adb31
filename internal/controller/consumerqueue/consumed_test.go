package consumerqueue

import (
	"errors"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"

	amqp "github.com/rabbitmq/amqp091-go"
)

// others is what is known of a queue that others consume, by so many counts; nobody of one that they do not.
func others(counts int) rabbit.Consumers { return rabbit.Consumers{Others: true, Counts: counts} }
func nobody(counts int) rabbit.Consumers { return rabbit.Consumers{Counts: counts} }

func TestIsConsumed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		told  bool
		known rabbit.Consumers
		want  bool
	}{
		"nothing is known":                {false, rabbit.Consumers{}, false},
		"nothing is known any more":       {true, rabbit.Consumers{}, true},
		"somebody was there once":         {false, others(countsUntilConsumed - 1), false},
		"somebody stays":                  {false, others(countsUntilConsumed), true},
		"somebody has stayed for long":    {true, others(1000), true},
		"somebody is back":                {true, others(1), true},
		"nobody is there":                 {false, nobody(1), false},
		"nobody is there any more":        {true, nobody(countsUntilFree - 1), true},
		"nobody has come back":            {true, nobody(countsUntilFree), false},
		"consumers are not counted":       {false, rabbit.Consumers{Disabled: true}, false},
		"they are not counted any longer": {true, rabbit.Consumers{Disabled: true}, false},
	} {
		if got := isConsumed(test.told, test.known); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// found has the broker find consumers of a queue, and the ConsumerQueues reconciled that this concerns.
func (w *world) found(queue string, known rabbit.Consumers) (written bool) {
	w.t.Helper()
	w.broker.SetConsumers(queue, known)
	return w.counted(nil)
}

// traps are the codes of the advisories.
func (w *world) traps() string {
	codes := []string{}
	for _, advisory := range w.get().Status.Advisories {
		codes = append(codes, string(advisory.Code)+" "+advisory.Name)
	}
	return strings.Join(codes, ", ")
}

const consumed = "DeadLetterQueueConsumed orders.dlq"

// The status is written when the advisory comes and when it goes, however many counts there are in between.
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
		{"somebody looks", "orders.dlq", others(1), false, ""},
		{"somebody stays", "orders.dlq", others(2), true, consumed},
		{"and stays", "orders.dlq", others(3), false, consumed},
		{"nobody", "orders.dlq", nobody(9), false, consumed},
		{"somebody is back", "orders.dlq", others(1), false, consumed},
		{"nothing is known", "orders.dlq", rabbit.Consumers{}, false, consumed},
		{"nobody for long", "orders.dlq", nobody(10), true, ""},
		{"still nobody", "orders.dlq", nobody(11), false, ""},
	} {
		topologytest.Equal(t, step.name+": written", step.written, w.found(step.queue, step.known))
		topologytest.Equal(t, step.name, step.want, w.traps())
	}
	topologytest.Equal(t, "conditions", ready, w.get().Status.Conditions)
}

// A manager that is started again finds the advisory in the status, and keeps it until it knows better.
func TestConsumedAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.found("orders.dlq", others(2))
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
	topologytest.Equal(t, "where nobody counts", "", w.traps())
}

// Only the dead-letter queue of now, at the broker of now, is meant.
func TestConsumedElsewhere(t *testing.T) {
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
			w.found("orders.dlq", others(2))
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
			topologytest.Equal(t, "reconciled again because of a count", nil, requests)
		})
	}
}

// A look that the broker refuses is told of until one succeeds.
func TestRefusedLookInStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{}`))
	look := func() {
		_, err := w.broker.Look(t.Context(), w.broker.Health().Cluster.Key(), transfer.LookConfig{
			Queue: "orders.dlq", Visit: func(*amqp.Delivery) bool { return true },
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
	look()
	topologytest.Equal(t, "advisories", []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisoryRedriveImpossible, Name: "orders.dlq",
		Message: `dead letters cannot be looked at, moved or deleted: access refused: no read. The user of BrokerConnection "default" ` +
			`needs the permission read on queue "orders.dlq", and write on the exchange amq.default`,
	}}, w.get().Status.Advisories)
	w.broker.Fail(vhost.QueueID("orders.dlq"), nil)
	look()
	topologytest.Equal(t, "after a look that succeeded", "", w.traps())
}
