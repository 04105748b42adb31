package recreate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestRoomForARecreation(t *testing.T) {
	cases := map[string]struct {
		bytes   int64
		nodes   []management.Node
		refusal string // none if there is room
	}{
		"no node is known": {1 << 30, nil, ""},
		"enough disk":      {1000, []management.Node{{Name: "a", FreeDisk: json.Number("3000")}}, ""},
		"the disk is not monitored": {
			1000, []management.Node{{Name: "a", FreeDisk: "disk_free_monitoring_disabled"}}, "",
		},
		"one node has too little disk": {
			1000,
			[]management.Node{{Name: "a", FreeDisk: json.Number("3000")}, {Name: "b", FreeDisk: json.Number("2999")}},
			`node "b" has too little free disk: while the messages of queue "orders" are moved, they can take 3 times the disk that they take now`,
		},
		"a memory alarm": {
			0, []management.Node{{Name: "a", MemoryAlarm: true}}, `node "a" has a memory alarm, so RabbitMQ accepts no messages`,
		},
		"a disk alarm": {0, []management.Node{{Name: "a", DiskAlarm: true}}, `node "a" has a disk alarm, so RabbitMQ accepts no messages`},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkRoom("orders", test.bytes, test.nodes)
			if got := textOf(err); got != test.refusal || err != nil && ReasonOf(err) != QueueUnavailable {
				t.Errorf("%q: %q", ReasonOf(err), got)
			}
		})
	}
}

// versioned is an observer that knows only the version of the broker.
type versioned struct {
	Observer

	version string
}

func (o versioned) Version() string { return o.version }

func TestPoliciesOfTheHold(t *testing.T) {
	unlimited := vhost.Arguments{"delivery-limit": int64(-1)}
	cases := map[string]struct {
		pattern, version string
		definition       vhost.Arguments
		refused          bool
	}{
		"a limit of deliveries":          {".*", "4.3.6", vhost.Arguments{"delivery-limit": int64(20)}, true},
		"no limit of deliveries":         {".*", "4.3.6", unlimited, false},
		"no limit of deliveries on 3.10": {".*", "3.10.8", unlimited, true},
		"a limit of length":              {"^warren-", "4.3.6", vhost.Arguments{"max-length": int64(9)}, true},
		"a limit of bytes":               {"^warren-", "4.3.6", vhost.Arguments{"max-length-bytes": int64(9)}, true},
		"an idle queue is deleted":       {"^warren-", "4.3.6", vhost.Arguments{"expires": int64(9)}, true},
		"another key":                    {".*", "4.3.6", vhost.Arguments{"queue-leader-locator": "balanced"}, false},
		"another queue":                  {"^orders$", "4.3.6", vhost.Arguments{"delivery-limit": int64(20)}, false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Recreator{observer: versioned{version: test.version}}
			policy := vhost.Policy{Name: "p", Pattern: vhost.ReadPattern(test.pattern), ApplyTo: "queues", Definition: test.definition}
			err := r.checkPolicy(policy, of("orders").Hold(), vhost.PrefixHold)
			if refused := ReasonOf(err) == InterferingPolicy; refused != test.refused || err != nil && !refused {
				t.Error(err)
			}
		})
	}
}

// A refusal keeps its text while its cause lasts. Otherwise each check would write the status.
func TestAPolicyOfHoldAndBacklogIsRefusedForTheHold(t *testing.T) {
	policies := []vhost.Policy{{
		Name: "p", Pattern: vhost.ReadPattern(".*"), ApplyTo: "queues", Definition: vhost.Arguments{"max-length": int64(9)},
	}}
	for range 50 { // the former order was random
		err := (&Recreator{}).checkPolicies(of("orders"), policies)
		if got := textOf(err); !strings.Contains(got, `the prefix "warren-hold-"`) {
			t.Fatal(got)
		}
	}
}

func TestHowManyBindingsAreMoved(t *testing.T) {
	bindings := func(count, size int) (list []vhost.Binding) {
		for range count {
			list = append(list, vhost.Binding{Source: "shop", Arguments: vhost.Arguments{"a": strings.Repeat("x", size-len(`{"a":""}`))}})
		}
		return list
	}
	cases := map[string]struct {
		bindings []vhost.Binding
		refusal  string // none if they can be moved
	}{
		"as many as allowed": {bindings(64, 1<<10), ""},
		"too many":           {bindings(65, 8), `queue "orders" has 65 bindings; at most 64 can be moved`},
		"too large": {
			bindings(64, 1<<10+1), `the bindings of queue "orders" have 65600 bytes of arguments; at most 65536 can be moved`,
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkBindings(of("orders"), test.bindings)
			if got := textOf(err); got != test.refusal || err != nil && ReasonOf(err) != TooManyBindings {
				t.Errorf("%q: %q", ReasonOf(err), got)
			}
		})
	}
}

func TestQueuesThatCouldLoseMessagesWhileTheyAreMoved(t *testing.T) {
	policyOf := func(pattern string, definition vhost.Arguments) []vhost.Policy {
		return []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern(pattern), ApplyTo: "queues", Definition: definition}}
	}
	cases := map[string]struct {
		arguments vhost.Arguments
		policies  []vhost.Policy
		refusal   Reason // none if the messages can be moved
	}{
		"the default limit":      {},
		"no limit of deliveries": {arguments: vhost.Arguments{vhost.ArgDeliveryLimit: int64(-1)}},
		"enough deliveries":      {arguments: vhost.Arguments{vhost.ArgDeliveryLimit: int64(12)}},
		"few deliveries":         {arguments: vhost.Arguments{vhost.ArgDeliveryLimit: int64(0)}, refusal: LossyDeliveries},
		"few deliveries, then dead-lettered": {arguments: vhost.Arguments{
			vhost.ArgDeliveryLimit: int64(3), vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterStrategy: vhost.StrategyAtLeastOnce,
			vhost.ArgOverflow: vhost.OverflowRejectPublish,
		}},
		"few deliveries by a policy": {policies: policyOf(".*", vhost.Arguments{vhost.KeyDeliveryLimit: 3.0}), refusal: LossyDeliveries},
		"a policy of other queues":   {policies: policyOf("^x", vhost.Arguments{vhost.KeyDeliveryLimit: 3.0})},
		"dead-lettered by a policy":  {policies: policyOf(".*", vhost.Arguments{vhost.KeyDeliveryLimit: 3.0, "dead-letter-exchange": "dlx"})},
		"dead-lettered by a policy that another one outranks": {policies: append(
			policyOf(".*", vhost.Arguments{"dead-letter-exchange": "dlx"}),
			vhost.Policy{
				Name: "q", Pattern: vhost.ReadPattern(".*"), ApplyTo: "queues", Priority: 1,
				Definition: vhost.Arguments{vhost.KeyDeliveryLimit: 3.0},
			}), refusal: LossyDeliveries},
		"dead-lettered at most once": {arguments: vhost.Arguments{vhost.ArgDeadLetterExchange: "dlx"}, refusal: LossyDeadLetters},
		"dead-lettered at most once, because the queue drops messages": {arguments: vhost.Arguments{
			vhost.ArgDeadLetterExchange: "dlx", vhost.ArgDeadLetterStrategy: vhost.StrategyAtLeastOnce,
		}, refusal: LossyDeadLetters},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if err := checkMoved("orders", test.arguments, test.policies); ReasonOf(err) != test.refusal {
				t.Errorf("%q: %v", ReasonOf(err), err)
			}
		})
	}
}

// emptiable is a queue with messages that came after Check saw none.
type emptiable struct {
	Changer

	moved bool
}

func (c *emptiable) DeclaredQueue(context.Context, string, string) (amqp.Queue, bool, error) {
	return amqp.Queue{Messages: 1}, true, nil
}

func (c *emptiable) Move(context.Context, string, mover.Config) (mover.Progress, error) {
	c.moved = true
	return mover.Progress{}, errors.New("moved")
}

// Messages may come after Check saw none. A connection that is cut during their move counts as a delivery.
func TestMessagesThatCouldBeLostAreNotMoved(t *testing.T) {
	limited := vhost.Arguments{vhost.ArgDeliveryLimit: 0}
	atMostOnce := vhost.Arguments{vhost.ArgDeadLetterExchange: "dlx"}
	for name, test := range map[string]struct {
		arguments vhost.Arguments
		reason    Reason // none if the messages may be moved
	}{
		"the default limit":          {},
		"few deliveries":             {limited, LossyDeliveries},
		"dead-lettered at most once": {atMostOnce, LossyDeadLetters},
	} {
		t.Run(name, func(t *testing.T) {
			queue := &emptiable{}
			r := New(Settings{}, reported{}, queue, nil, listed{queue: management.QueueInfo{Arguments: test.arguments}})
			_, err := r.Empty(t.Context(), of("orders"), nil)
			if ReasonOf(err) != test.reason || queue.moved != (test.reason == "") {
				t.Errorf("moved: %t, %q: %v", queue.moved, ReasonOf(err), err)
			}
			if drains, err := r.mayDrain(t.Context(), of("orders")); err != nil || drains != (test.reason == "") {
				t.Errorf("drains: %t: %v", drains, err)
			}
		})
	}
}

// RabbitMQ refuses basic.get for a queue with a single active consumer, so a drain would fail at each attempt.
func TestAQueueWithASingleActiveConsumerIsNotDrained(t *testing.T) {
	for name, single := range map[string]bool{"with a single active consumer": true, "with any number of consumers": false} {
		t.Run(name, func(t *testing.T) {
			broker := reported{queues: map[string]vhost.Queue{"orders": {Arguments: vhost.Arguments{vhost.ArgSingleActiveConsumer: single}}}}
			drains, err := New(Settings{}, broker, nil, nil, listed{}).mayDrain(t.Context(), of("orders"))
			if err != nil || drains == single {
				t.Errorf("drains: %t: %v", drains, err)
			}
		})
	}
}

// reported is the state of a broker.
type reported struct {
	versioned

	mayNotWrite, isTaken bool
	shared               error
	policies             []vhost.Policy
	nodes                []management.Node
	queues               map[string]vhost.Queue
}

func (o reported) MayWritePolicies() bool              { return !o.mayNotWrite }
func (o reported) IsTaken(string) bool                 { return o.isTaken }
func (o reported) CheckUnshared(context.Context) error { return o.shared }
func (o reported) View(show func(*snapshot.Snapshot))  { show(&snapshot.Snapshot{Queues: o.queues}) }

// listed is a queue as the management API lists it.
type listed struct {
	API

	queue    management.QueueInfo
	policies []vhost.Policy
	nodes    []management.Node
}

func (l listed) Nodes(context.Context, string) ([]management.Node, error) { return l.nodes, nil }

func (l listed) Policies(context.Context) ([]vhost.Policy, error) { return l.policies, nil }

func (l listed) QueueInfo(context.Context, string, string) (*management.QueueInfo, error) {
	return &l.queue, nil
}

func TestStatesInWhichNoQueueIsRecreated(t *testing.T) {
	running := management.QueueInfo{Type: vhost.TypeQuorum, Leader: "rabbit@a", State: "running"}
	with := func(change func(*management.QueueInfo)) management.QueueInfo {
		changed := running
		change(&changed)
		return changed
	}
	limited := func(name string, limit int) management.QueueInfo {
		return with(func(q *management.QueueInfo) { q.Arguments = map[string]any{name: limit} })
	}
	short := vhost.Policy{
		Name: "p", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues", Definition: vhost.Arguments{vhost.KeyMaxLength: int64(0)},
	}
	alarmed := []management.Node{{Name: "a", DiskAlarm: true}}
	small := short
	small.Definition = vhost.Arguments{vhost.KeyMaxLengthBytes: int64(5000)}
	cases := map[string]struct {
		broker reported
		queue  management.QueueInfo
		reason Reason
	}{
		"messages expire before a sentinel is found":        {reported{}, limited("x-message-ttl", 500), UnsupportedQueue},
		"the queue has room for one message":                {reported{}, limited("x-max-length", 1), UnsupportedQueue},
		"the queue has no room for sentinels":               {reported{}, limited("x-max-length-bytes", 4095), UnsupportedQueue},
		"the queue drops its oldest messages beyond a size": {reported{}, limited("x-max-length-bytes", 5000), LossyLength},
		"a policy makes it drop them":                       {reported{policies: []vhost.Policy{small}}, running, LossyLength},
		"a policy leaves no room":                           {reported{policies: []vhost.Policy{short}}, running, UnsupportedQueue},
		"the user lacks the tag policymaker":                {reported{mayNotWrite: true}, running, MissingPermission},
		"a Redrive uses the queue":                          {reported{isTaken: true}, running, QueueBusy},
		"another instance uses the vhost":                   {reported{shared: brokererr.ErrShared}, running, SharedVHost},
		"the queue has no leader":                           {reported{}, with(func(q *management.QueueInfo) { q.Leader = "" }), QueueUnavailable},
		"the queue has no majority":                         {reported{}, with(func(q *management.QueueInfo) { q.State = "minority" }), QueueUnavailable},
		"a node has an alarm":                               {reported{nodes: alarmed}, running, QueueUnavailable},
		"the queue is classic":                              {reported{}, with(func(q *management.QueueInfo) { q.Type = "classic" }), UnsupportedQueue},
		"RabbitMQ 3.10 drops messages that are given back": {
			reported{versioned: versioned{version: "3.10.8"}},
			with(func(q *management.QueueInfo) { q.Arguments = map[string]any{vhost.ArgDeliveryLimit: -1} }), UnsupportedQueue,
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			api := listed{queue: test.queue, policies: test.broker.policies, nodes: test.broker.nodes}
			err := New(Settings{Username: "warren"}, test.broker, nil, nil, api).Check(t.Context(), of("orders"))
			if ReasonOf(err) != test.reason {
				t.Errorf("%q: %v", ReasonOf(err), err)
			}
		})
	}
}

// Warren refuses a recreation that moves messages back if the old or the new queue may drop them. A recreation of a delay tier moves none
// back.
func TestRecreationsOfQueuesThatDropBytes(t *testing.T) {
	small := vhost.Arguments{vhost.ArgMaxLengthBytes: int64(5000)}
	const refusal = `queue "orders" drops its oldest messages beyond 5000 bytes, so messages that are moved back to it could be lost. ` +
		"Set overflow to reject-publish in a policy of the queue until it is recreated"
	becoming := func(arguments vhost.Arguments) Recreation {
		rec := of("orders")
		rec.Queue.Arguments = arguments
		return rec
	}
	withoutHold := becoming(small)
	withoutHold.WithoutHold = true
	for name, test := range map[string]struct {
		rec     Recreation
		found   *management.QueueInfo
		refusal string
	}{
		"the old queue":          {of("orders"), &management.QueueInfo{Arguments: small}, refusal},
		"the new queue":          {becoming(small), &management.QueueInfo{}, refusal},
		"a queue that is gone":   {becoming(small), nil, refusal},
		"neither":                {becoming(vhost.Arguments{vhost.ArgMaxLength: int64(9)}), &management.QueueInfo{}, ""},
		"a queue without a hold": {withoutHold, &management.QueueInfo{Arguments: small}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := textOf(checkKeeps(test.rec, test.found, nil)); got != test.refusal {
				t.Error(got)
			}
		})
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
