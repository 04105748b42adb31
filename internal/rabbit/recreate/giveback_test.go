package recreate_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A message that Warren cannot move back stays in the hold. The queue gets its bindings and all other messages back.
func TestRecreationBindsTheQueueAlthoughAMessageCannotBeMoved(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		if err := run.next(); err != nil {
			t.Fatal(err)
		}
		vh.Send("direct", "orders", amqp.Publishing{DeliveryMode: amqp.Persistent, Type: "amqp-1.0"})
		ids, messages := numbered(30)
		vh.Send("direct", "orders", messages...)
		run.record.phase = givingBack
		if err := run.next(); recreate.ReasonOf(err) != recreate.AMQP10Message {
			t.Error(err)
		}
		run.mustBeBound()
		rabbittest.Holds(t, vh, run.record.Hold(), 1)
		vh.Purge(run.record.Hold())
		run.run()
		run.mustBeAsBefore(before, false)
		if got := mustHold(t, vh, "orders", ids); !slices.Equal(got, ids) {
			t.Errorf("the order of the messages changed: %q", got)
		}
	})
}

// Another client deletes the hold after Warren has recorded the bindings and removed them from the queue. Then the manager crashes.
func TestRecreationRestoresTheBindingsOfAHoldThatIsDeleted(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		run.mustCrashAfter(recreate.StepUnbound)
		run.survives = nil
		vh.DeleteQueue(run.record.Hold())
		run.run()
		run.mustBeAsBefore(before, true)
	})
}

// Another client deletes the hold and binds the queue again, so that the binding cannot move to the hold. Repeating the swap would not help.
func TestRecreationGoesBackWithoutItsHold(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		run.nextUntil(swapping)
		vh.DeleteQueue(run.record.Hold())
		vh.Bind("direct", "orders", "orders", nil)
		topologytest.Equal(t, "Swap", recreate.OperationRefused, recreate.ReasonOf(run.swap()))
		run.record.phase = givingBack
		run.run()
		run.mustBeAsBefore(before, false)
	})
}

// A publisher sets the header warren-expiration itself, to a value that RabbitMQ refuses as an expiration.
func TestRecreationGivesBackAMessageWithTheHeaderOfWarren(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	before := vh.Definitions()
	strange := func(id string) amqp.Publishing {
		return amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Headers: amqp.Table{"warren-expiration": "x"}}
	}
	vh.Send("direct", "orders", strange("in the backlog"))
	run := recreation(t, vh, nil)
	if err := run.next(); err != nil {
		t.Fatal(err)
	}
	vh.Send("direct", "orders", strange("in the hold"))
	run.run()
	if run.backedOut != "" {
		t.Errorf("it went back: %s", run.backedOut)
	}
	run.mustBeAsBefore(before, true)
	mustHold(t, vh, "orders", []string{"in the backlog", "in the hold"})
}

// mustBeBound fails unless the exchanges lead to the queue, and none leads to the hold.
func (r *recreating) mustBeBound() {
	r.t.Helper()
	topologytest.Equal(r.t, "exchanges of the queue", []string{"direct", "topic"}, r.sourcesOf("orders"))
	topologytest.Equal(r.t, "exchanges of the hold", []string(nil), r.sourcesOf(r.record.Hold()))
}

// sourcesOf lists the exchanges that a queue is bound to, except the recreation's own.
func (r *recreating) sourcesOf(queue string) (sources []string) {
	for _, binding := range r.vh.Definitions().Bindings {
		if binding.Destination == queue && binding.Source != r.record.BackExchange() {
			sources = append(sources, binding.Source)
		}
	}
	slices.Sort(sources)
	return sources
}

// The user loses its permission to read one of the exchanges. A hold that retained all bindings would get a copy of each message, and each
// retry would move the copies to the queue.
func TestRecreationDeliversOnceAlthoughABindingIsRefused(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	before := vh.Definitions()
	run := recreation(t, vh, nil)
	run.config = limitedConfig(t, vh, []string{".*", ".*", ".*"})
	run.nextUntil(emptying)
	user := brokers.User{Username: run.config.Username, Password: run.config.Password}
	vh.Grant(user, ".*", ".*", "^(orders|direct|warren-)")
	run.restart() // RabbitMQ caches permissions for each channel
	run.record.phase = givingBack
	topologytest.Equal(t, "GiveBack", recreate.MissingPermission, recreate.ReasonOf(run.next()))
	topologytest.Equal(t, "exchanges of the queue", []string{"direct"}, run.sourcesOf("orders"))
	topologytest.Equal(t, "exchanges of the hold", []string{"topic"}, run.sourcesOf(run.record.Hold()))
	vh.Publish("direct", "orders", "1")
	vh.Publish("topic", "any", "2")
	vh.Grant(user, ".*", ".*", ".*")
	run.restart()
	run.run()
	run.mustBeAsBefore(before, false)
	rabbittest.Holds(t, vh, "orders", 2)
}

// Another instance connects while the bindings lead to the hold. The hold stays until it is gone, but gets no more messages.
func TestRecreationDeliversOnceBesideAnotherInstance(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	before := vh.Definitions()
	run := recreation(t, vh, nil)
	run.config.Owner, run.config.KnownOwners = "ours", rabbittest.Knowing()
	run.nextUntil(emptying)
	theirs := fence.Name{Owner: "theirs", Begun: time.Now()}.String("another queue")
	vh.SetPolicy(theirs, brokers.Policy{
		Pattern: fence.Pattern([]string{"another queue"}), ApplyTo: "queues", Priority: 1000, Definition: fence.Fence{}.Closed(),
	})
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(run.connection.Refresh(t.Context())).To(Succeed())
		g.Expect(run.connection.Health().OtherInstances).To(Equal("theirs"))
	}).WithTimeout(rabbittest.Within).Should(Succeed())
	run.record.phase = givingBack
	topologytest.Equal(t, "GiveBack", recreate.SharedVHost, recreate.ReasonOf(run.next()))
	run.mustBeBound()
	vh.Publish("direct", "orders", "1")
	vh.DeletePolicy(theirs)
	run.run()
	run.mustBeAsBefore(before, false)
	rabbittest.Holds(t, vh, "orders", 1)
}

// A message expires in the hold while the bindings lead there. The queue would have dead-lettered it, so the hold does.
func TestRecreationDeadLettersWhatExpiresInTheHold(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ arguments, policy vhost.Arguments }{
		"at most once": {arguments: vhost.Arguments{vhost.ArgDeadLetterExchange: "dead"}},
		"at least once": {arguments: vhost.Arguments{
			vhost.ArgDeadLetterExchange: "dead", vhost.ArgDeadLetterRoutingKey: "orders",
			vhost.ArgDeadLetterStrategy: "at-least-once", vhost.ArgOverflow: vhost.OverflowRejectPublish,
		}},
		"by a policy": {policy: vhost.Arguments{vhost.KeyDeadLetterExchange: "dead", vhost.KeyDeadLetterRoutingKey: "orders"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				arguments := test.arguments
				if test.policy != nil {
					vh.SetPolicy("dead-letters", brokers.Policy{Pattern: "^orders$", ApplyTo: "queues", Definition: test.policy})
				}
				boundQueue(vh, arguments)
				vh.DeclareQueue("orders.dlq", rabbittest.Quorum(nil))
				vh.DeclareExchange("dead", "direct", nil)
				vh.Bind("dead", "orders.dlq", "orders", nil)
				before := vh.Definitions()
				run := recreation(t, vh, arguments)
				if err := run.next(); err != nil {
					t.Fatal(err)
				}
				vh.Send("direct", "orders", amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: "expires", Expiration: "100"})
				rabbittest.Holds(t, vh, "orders.dlq", 1)
				run.record.phase = diverting // as if Warren crashed before it recorded the end, and was then updated
				run.run()
				if test.policy != nil {
					vh.DeletePolicy("dead-letters")
				}
				run.mustBeAsBefore(before, true)
			})
		})
	}
}

// Another client binds the queue when Divert has ended: its binding would be deleted with the queue.
func TestRecreationKeepsALateBinding(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		phase phase  // that has not begun when the client binds the queue
		step  string // after which the client binds the queue
		// reason is why Swap fails; none if it does not. After settleTimeout, NotProven backs the recreation out.
		reason recreate.Reason
	}{
		"made while the queue is emptied": {phase: emptying},
		"made after the queue is emptied": {phase: swapping},
		"made behind the fence":           {step: safedelete.StepFenced, reason: recreate.NotProven},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				bind := sync.OnceFunc(func() { vh.Bind("topic", "orders", "new.#", nil) })
				run := recreation(t, vh, nil)
				run.survives = func(step string) bool {
					if step == test.step {
						bind()
					}
					return true
				}
				failed := false
				for run.record.phase != givingBack {
					if run.record.phase == test.phase {
						bind()
						vh.Publish("topic", "new.1", "early")
						run.record.Emptied = test.phase == swapping
					}
					if err := run.next(); err != nil {
						reason := recreate.ReasonOf(err)
						failed = failed || reason != ""
						if reason != "" && reason != test.reason {
							t.Fatal(err)
						}
					}
				}
				if failed != (test.reason != "") {
					t.Errorf("the swap never failed with reason %q", test.reason)
				}
				if run.past > 0 {
					t.Errorf("%d messages through a binding count as past the bindings", run.past)
				}
				run.run()
				bound := slices.ContainsFunc(vh.Definitions().Bindings, func(binding brokers.Binding) bool {
					return binding.Destination == "orders" && binding.RoutingKey == "new.#"
				})
				if !bound {
					t.Error("the binding is lost")
				}
			})
		})
	}
}

// The management API does not show the type of a number, and RabbitMQ distinguishes bindings by it.
func TestRecreationOfAQueueWithTypedBindings(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	cases := map[string]struct {
		number any
		reason recreate.Reason
	}{
		"an integer of 8 bits":           {int8(1), ""},
		"an integer of 32 bits":          {int32(1), ""},
		"an integer of 64 bits":          {int64(1), ""},
		"an unsigned integer of 32 bits": {uint32(1), recreate.BindingsComeBack},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				boundQueue(vh, nil)
				vh.DeclareExchange("headers", "headers", nil)
				vh.Bind("headers", "orders", "", map[string]any{"x-match": "all", "version": test.number})
				before := vh.Definitions()
				run := recreation(t, vh, nil)
				run.failed = func(err error) {
					if says := `argument "version" is an integer of an unusual type`; !strings.Contains(err.Error(), says) {
						t.Errorf("%q does not say %q", err, says)
					}
				}
				run.run()
				if run.backedOut != test.reason {
					t.Errorf("it went back because of %q, not %q", run.backedOut, test.reason)
				}
				run.mustBeAsBefore(before, test.reason == "")
			})
		})
	}
}

// Another client deletes the backlog while the fence is closed. The broker then refuses the copy of a message that came past the bindings,
// and the message must stay in the queue.
func TestRecreationKeepsAMessageThatTheBacklogRefuses(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	before := vh.Definitions()
	run := recreation(t, vh, nil)
	run.record.AcceptsPast = true
	run.survives = func(step string) bool {
		if step == safedelete.StepFenced {
			vh.DeleteQueue(run.record.Backlog())
			vh.Send("", "orders", amqp.Publishing{MessageId: "past"})
		}
		return true
	}
	if err := run.swap(); recreate.ReasonOf(err) != recreate.MessageNotMoved || run.record.DeleteSent {
		t.Errorf("%v, delete sent: %t", err, run.record.DeleteSent)
	}
	run.survives, run.record.phase = nil, givingBack
	run.run()
	run.mustBeAsBefore(before, false)
	mustHold(t, vh, "orders", []string{"past"})
}

// Another instance begins to recreate the queue while its bindings lead to the hold. The fence must stay closed, because the other
// instance may be deleting the queue.
func TestRecreationIsNotGivenBackBehindTheFenceOfAnotherInstance(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	run := recreation(t, vh, nil)
	run.nextUntil(emptying)
	theirs := fence.Name{Owner: "another", Begun: time.Now(), Recreation: true}.String("orders")
	vh.SetPolicy(theirs, brokers.Policy{
		Pattern: fence.Pattern([]string{"orders"}), ApplyTo: "queues", Priority: 1000, Definition: fence.Fence{}.Closed(),
	})
	run.record.phase = givingBack
	topologytest.Equal(t, "GiveBack", recreate.SharedVHost, recreate.ReasonOf(run.next()))
	topologytest.Equal(t, "policies", []string{theirs}, vh.Policies())
}
