package plan_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// nextRecreation compares a spec with a broker that has another one, and returns what is recreated next.
func nextRecreation(t *testing.T, was, spec string, change func(*vhost.Observed), input plan.Input) (plan.Recreation, bool) {
	t.Helper()
	before := topologytest.Desired(t, was, topologytest.V43)
	observed := topologytest.Observe(t, before)
	known := topology.InventoryOf(plan.MergeInventory(plan.Diff(before, observed, plan.Input{}), nil, plan.Plan{}))
	if change != nil {
		change(&observed)
	}
	comparison := plan.Diff(topologytest.Desired(t, spec, topologytest.V43), observed, input)
	return plan.NextRecreation(comparison, known, observed, input)
}

func TestQueuesAreRecreatedInOrder(t *testing.T) {
	t.Parallel()
	const all = `{
		queue: {messageTTL: 5m},
		bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
		retry: {exchange: {name: again}, delayTiers: [{delay: 40s, queueName: tier}]},
		deadLetter: {exchange: {name: dlx}, queue: {name: dlq, maxLength: 10}}
	}`
	for name, test := range map[string]struct{ spec, want string }{
		"nothing differs":            {full, ""},
		"delay tiers come first":     {all, "tier"},
		"then the dead-letter queue": {strings.Replace(all, "40s", "30s", 1), "dlq"},
		"then the main queue":        {fullWithTTL, "orders"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := nextRecreation(t, full, test.spec, nil, plan.Input{})
			topologytest.Equal(t, "found", test.want != "", found)
			topologytest.Equal(t, "queue", test.want, got.Queue.Name)
			topologytest.Equal(t, "refusal", "", got.Refusal)
		})
	}
}

func TestWhatIsNotRecreated(t *testing.T) {
	t.Parallel()
	const byHand = `: delete queue "orders" by hand, and Warren declares it again`
	changed := func(change func(*vhost.Queue)) func(*vhost.Observed) {
		return func(o *vhost.Observed) {
			queue := o.Queues["orders"]
			queue.Arguments = maps.Clone(queue.Arguments)
			change(&queue)
			o.Queues["orders"] = queue
		}
	}
	bound := func(count int, arguments vhost.Arguments) func(*vhost.Observed) {
		return func(o *vhost.Observed) {
			for i := range count {
				o.BindingsTo["orders"] = append(o.BindingsTo["orders"], vhost.Binding{
					Source: "theirs", Destination: "orders", RoutingKey: fmt.Sprint(i), Arguments: arguments,
				})
			}
		}
	}
	operatorPolicy := func(pattern, key string) func(*vhost.Observed) {
		return func(o *vhost.Observed) {
			o.Policies = append(o.Policies, vhost.Policy{
				Name: "harmless", Pattern: vhost.ReadPattern("."), Operator: true, Definition: vhost.Arguments{"delivery-limit": int64(9)},
			}, vhost.Policy{
				Name: "p", Pattern: vhost.ReadPattern(pattern), Operator: true, Definition: vhost.Arguments{key: int64(9)},
			})
		}
	}
	dropped := func(key string) string {
		return `operator policy "p" sets ` + key + ` and would drop messages of queue "orders" while they are moved: exclude the queue from its pattern`
	}
	for name, test := range map[string]struct {
		spec   string
		change func(*vhost.Observed)
		input  plan.Input
		want   string
	}{
		"an exchange": {
			spec: strings.Replace(fullWithTTL, "name: again", "name: again, type: topic", 1),
			want: `only durable quorum queues are recreated: delete exchange "again" by hand, and Warren declares it again`,
		},
		"a source exchange, which other clients use": {
			spec: strings.Replace(fullWithTTL, "name: events, type: topic", "name: events, type: direct", 1),
			want: `exchange "events": correct or remove the type in bindings, and do not delete the exchange, because other clients may use it`,
		},
		"a stream": {
			change: changed(func(q *vhost.Queue) { q.Arguments[vhost.ArgQueueType] = "stream" }),
			want:   `only durable quorum queues are recreated, and queue "orders" is stream` + byHand,
		},
		"a queue without a type": {
			change: changed(func(q *vhost.Queue) { delete(q.Arguments, vhost.ArgQueueType) }),
			want:   `only durable quorum queues are recreated, and queue "orders" is classic` + byHand,
		},
		"an auto-delete queue": {
			change: changed(func(q *vhost.Queue) { q.AutoDelete = true }),
			want:   `only durable quorum queues are recreated, and queue "orders" is auto-delete` + byHand,
		},
		"an exclusive queue": {
			change: changed(func(q *vhost.Queue) { q.Exclusive = true }),
			want:   `only durable quorum queues are recreated, and queue "orders" is exclusive` + byHand,
		},
		"a transient queue": {
			change: changed(func(q *vhost.Queue) { q.Durable = false }),
			want:   `only durable quorum queues are recreated, and queue "orders" is transient` + byHand,
		},
		"with another instance": {
			input: plan.Input{OtherInstance: "u2 works here"}, want: "u2 works here: give each instance its own vhost",
		},
		"with another ConsumerQueue": {
			input: plan.Input{Shared: func(entry v1alpha1.TopologyEntry) bool { return entry.Name == "orders" }},
			want:  `another ConsumerQueue also names queue "orders": give each ConsumerQueue its own queue, or delete queue "orders" by hand`,
		},
		"64 bindings": {change: bound(63, nil)},
		"65 bindings": {change: bound(64, nil), want: `queue "orders" has 65 bindings, and at most 64 can be moved: remove bindings, or delete the queue by hand`},
		"large bindings": {
			change: bound(3, vhost.Arguments{"x": strings.Repeat("a", 30_000)}),
			want:   `the bindings of queue "orders" have 90024 bytes of arguments, and at most 65536 can be moved: remove bindings, or delete the queue by hand`,
		},
		"an operator policy with expires":          {change: operatorPolicy("^orders$", "expires"), want: dropped("expires")},
		"an operator policy with max-length":       {change: operatorPolicy("^orders$", "max-length"), want: dropped("max-length")},
		"an operator policy with max-length-bytes": {change: operatorPolicy("^orders$", "max-length-bytes"), want: dropped("max-length-bytes")},
		"an operator policy with message-ttl":      {change: operatorPolicy("^orders$", "message-ttl"), want: dropped("message-ttl")},
		"an operator policy with overflow":         {change: operatorPolicy("^orders$", "overflow"), want: dropped("overflow")},
		"an operator policy for other queues":      {change: operatorPolicy("^invoices$", "max-length")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.spec == "" {
				test.spec = fullWithTTL
			}
			got, found := nextRecreation(t, full, test.spec, test.change, test.input)
			topologytest.Equal(t, "found", true, found)
			topologytest.Equal(t, "refusal", test.want, got.Refusal)
		})
	}
}

var now = time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)

func wentBack(id, reason string, ago time.Duration) *v1alpha1.RecreationResult {
	return &v1alpha1.RecreationResult{
		ID: id, Queue: "orders", Result: v1alpha1.RecreationBackedOut, Reason: reason, Message: "of a reason", Time: metav1.NewTime(now.Add(-ago)),
	}
}

func TestWhenARecreationIsPermitted(t *testing.T) {
	t.Parallel()
	main := plan.Recreation{Queue: topology.Queue{Name: "orders", Role: v1alpha1.RoleMain}}
	foreign, upgraded, refused := main, main, main
	foreign.Foreign, upgraded.Upgraded, refused.Refusal = true, true, "no"
	whenEmpty := topology.Recreation{Policy: v1alpha1.RecreatePolicyWhenEmpty}
	migrate := topology.Recreation{Policy: v1alpha1.RecreatePolicyMigrate}
	automatic := topology.Recreation{Policy: v1alpha1.RecreatePolicyMigrate, Automatic: true}
	for name, test := range map[string]struct {
		of     plan.Recreation
		moment plan.Moment
		want   string // the reason; empty if it is permitted
		again  time.Duration
	}{
		"WhenEmpty":         {of: main, moment: plan.Moment{Settings: whenEmpty}},
		"Migrate":           {of: main, moment: plan.Moment{Settings: migrate}, want: v1alpha1.ReasonApprovalNeeded},
		"Migrate, approved": {of: main, moment: plan.Moment{Settings: migrate, Approved: "h"}},
		"Migrate, another plan was approved": {
			of: main, moment: plan.Moment{Settings: migrate, Approved: "old"}, want: v1alpha1.ReasonApprovalStale,
		},
		"Migrate, the plan was approved and is half done": {of: main, moment: plan.Moment{
			Settings: migrate, Approved: "old", Generation: 7, Status: v1alpha1.RecreationStatus{ApprovedPlanHash: "old", ApprovedGeneration: 7},
		}},
		"Migrate, the plan was approved for a former spec": {of: main, moment: plan.Moment{
			Settings: migrate, Approved: "old", Generation: 8, Status: v1alpha1.RecreationStatus{ApprovedPlanHash: "old", ApprovedGeneration: 7},
		}, want: v1alpha1.ReasonApprovalStale},
		"Migrate, Automatic":             {of: main, moment: plan.Moment{Settings: automatic}},
		"a foreign queue":                {of: foreign, moment: plan.Moment{Settings: automatic}, want: v1alpha1.ReasonApprovalNeeded},
		"after an upgrade of the broker": {of: upgraded, moment: plan.Moment{Settings: whenEmpty}, want: v1alpha1.ReasonApprovalNeeded},
		"after an upgrade, refused": {
			of: plan.Recreation{Upgraded: true, Refusal: "an exchange"}, moment: plan.Moment{Settings: whenEmpty}, want: v1alpha1.ReasonApprovalNeeded,
		},
		"after an upgrade, approved":       {of: upgraded, moment: plan.Moment{Settings: whenEmpty, Approved: "h"}},
		"refused, although it is approved": {of: refused, moment: plan.Moment{Settings: migrate, Approved: "h"}, want: v1alpha1.ReasonRecreationBlocked, again: time.Minute},
		"aborted": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Aborted: "id", Status: v1alpha1.RecreationStatus{ID: "id"}},
			want: v1alpha1.ReasonRecreationAborted,
		},
		"it went back by an abort": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Aborted: "id", Status: v1alpha1.RecreationStatus{
				ID: "next", LastResult: wentBack("id", v1alpha1.BackOutAborted, time.Hour),
			}}, want: v1alpha1.ReasonRecreationAborted,
		},
		"it was aborted while it went back for another reason": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Aborted: "id", Status: v1alpha1.RecreationStatus{
				ID: "next", LastResult: wentBack("id", v1alpha1.BackOutConsumersCameBack, time.Hour),
			}}, want: v1alpha1.ReasonRecreationAborted,
		},
		"it was aborted too late": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Aborted: "id", Status: v1alpha1.RecreationStatus{
				ID: "next", LastResult: &v1alpha1.RecreationResult{ID: "id", Result: v1alpha1.RecreationCompleted},
			}},
		},
		"the annotation of an abort was removed": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Status: v1alpha1.RecreationStatus{
				ID: "next", LastResult: wentBack("id", v1alpha1.BackOutAborted, time.Second),
			}},
		},
		"another recreation was aborted": {of: main, moment: plan.Moment{Settings: whenEmpty, Aborted: "id", Status: v1alpha1.RecreationStatus{ID: "other"}}},
		"a consumer subscribed again a moment ago": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Status: v1alpha1.RecreationStatus{
				ID: "id", LastResult: wentBack("id", v1alpha1.BackOutConsumersCameBack, 10*time.Second),
			}}, want: v1alpha1.ReasonRecreationPending, again: 20 * time.Second,
		},
		"the last attempt failed a moment ago": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Status: v1alpha1.RecreationStatus{
				ID: "id", Attempts: 1, LastResult: wentBack("id", v1alpha1.BackOutNotProven, time.Minute),
			}}, want: v1alpha1.ReasonRecreationPending, again: 9 * time.Minute,
		},
		"the last attempt failed long ago": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Status: v1alpha1.RecreationStatus{
				ID: "id", Attempts: 2, LastResult: wentBack("id", v1alpha1.BackOutNotProven, time.Hour),
			}},
		},
		"three attempts failed": {
			of: main, moment: plan.Moment{Settings: whenEmpty, Status: v1alpha1.RecreationStatus{
				ID: "id", Attempts: 3, LastResult: wentBack("id", v1alpha1.BackOutNotProven, time.Hour),
			}}, want: v1alpha1.ReasonRecreationBlocked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.moment.PlanHash, test.moment.Now = "h", now
			got := test.of.Permit(test.moment)
			topologytest.Equal(t, "begins", test.want == "", got.Begins)
			topologytest.Equal(t, "reason", test.want, got.Reason)
			topologytest.Equal(t, "again", test.again, got.Again)
		})
	}
}

// Otherwise Warren would stay blocked after a user has done what the message of the condition advises.
func TestAttemptsAreForgottenWhenTheUserActs(t *testing.T) {
	t.Parallel()
	main := plan.Recreation{Queue: topology.Queue{Name: "orders", Role: v1alpha1.RoleMain}}
	for name, test := range map[string]struct {
		change   func(*plan.Moment)
		attempts int32
		want     string // the reason; empty if it is permitted
	}{
		"nothing has changed":      {func(*plan.Moment) {}, 3, v1alpha1.ReasonRecreationBlocked},
		"the spec has changed":     {func(m *plan.Moment) { m.Generation++ }, 0, ""},
		"another plan is approved": {func(m *plan.Moment) { m.PlanHash, m.Approved = "new", "new" }, 0, ""},
		"the plan has changed":     {func(m *plan.Moment) { m.PlanHash = "new" }, 3, v1alpha1.ReasonRecreationBlocked},
		"it is aborted":            {func(m *plan.Moment) { m.Aborted = "id" }, 0, v1alpha1.ReasonRecreationAborted},
		"it was aborted and then approved": {func(m *plan.Moment) {
			m.Aborted = "id"
			m.ResetAttempts()
			m.Aborted = ""
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := plan.Moment{
				Settings: topology.Recreation{Policy: v1alpha1.RecreatePolicyMigrate}, Generation: 7, PlanHash: "h", Approved: "h", Now: now,
				Status: v1alpha1.RecreationStatus{
					ID: "id", Attempts: 3, AttemptsGeneration: 7, ApprovedPlanHash: "h", ApprovedGeneration: 7,
					LastResult: wentBack("old", v1alpha1.BackOutPublishersPastBindings, time.Second),
				},
			}
			test.change(&m)
			m.ResetAttempts()
			topologytest.Equal(t, "attempts", test.attempts, m.Status.Attempts)
			topologytest.Equal(t, "generation of the attempts", m.Generation, m.Status.AttemptsGeneration)
			topologytest.Equal(t, "reason", test.want, main.Permit(m).Reason)
		})
	}
}

func TestWhenARecreationBegins(t *testing.T) {
	t.Parallel()
	whenEmpty := topology.Recreation{Policy: v1alpha1.RecreatePolicyWhenEmpty, MaxReady: 100}
	migrate := topology.Recreation{Policy: v1alpha1.RecreatePolicyMigrate, MaxReady: 100}
	for name, test := range map[string]struct {
		role       v1alpha1.Role
		atMostOnce bool
		settings   topology.Recreation
		consumers  int
		ready      int64
		want       string // the message; empty if it begins
	}{
		"WhenEmpty, empty":                {settings: whenEmpty},
		"WhenEmpty, one consumer":         {settings: whenEmpty, consumers: 1, want: `Warren recreates queue "orders" after its 1 consumer has stopped`},
		"WhenEmpty, a message":            {settings: whenEmpty, ready: 1, want: `Warren recreates queue "orders" when it holds no ready message`},
		"Migrate, two consumers":          {settings: migrate, consumers: 2, want: `Warren recreates queue "orders" after its 2 consumers have stopped`},
		"Migrate, as many as allowed":     {settings: migrate, ready: 100},
		"Migrate, too many":               {settings: migrate, ready: 101, want: `Warren recreates queue "orders" when at most 100 messages are ready (recreation.maxReadyMessages)`},
		"Migrate, a delay tier":           {role: v1alpha1.RoleDelayTier, settings: migrate, ready: 1, want: `Warren recreates queue "orders" when it holds no ready message`},
		"Migrate, at most once":           {atMostOnce: true, settings: migrate, ready: 1, want: `queue "orders" dead-letters at most once, so its dead letters may be lost while its messages are moved: empty the queue first`},
		"Migrate, at most once and empty": {atMostOnce: true, settings: migrate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.role == "" {
				test.role = v1alpha1.RoleMain
			}
			r := plan.Recreation{Queue: topology.Queue{Name: "orders", Role: test.role}, AtMostOnce: test.atMostOnce}
			got := r.Decide(plan.Moment{Settings: test.settings, Consumers: test.consumers, Ready: test.ready})
			topologytest.Equal(t, "begins", test.want == "", got.Begins)
			topologytest.Equal(t, "message", test.want, got.Message)
		})
	}
}

func TestAQueueThatDeadLettersAtMostOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec, without string // an argument that the queue lacks
		want          bool
	}{
		"at least once":                       {spec: full},
		"at most once":                        {spec: full, without: vhost.ArgDeadLetterStrategy, want: true},
		"at least once, but without overflow": {spec: full, without: vhost.ArgOverflow, want: true},
		"no dead letters":                     {spec: full, without: vhost.ArgDeadLetterExchange},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := nextRecreation(t, test.spec, fullWithTTL, func(o *vhost.Observed) {
				delete(o.Queues["orders"].Arguments, test.without)
			}, plan.Input{})
			topologytest.Equal(t, "at most once", test.want, got.AtMostOnce)
		})
	}
}

func TestNextStep(t *testing.T) {
	t.Parallel()
	const (
		diverting, emptying = v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying
		swapping, giving    = v1alpha1.RecreationSwapping, v1alpha1.RecreationGivingBack
	)
	for name, test := range map[string]struct {
		phase      v1alpha1.RecreationPhase
		deleteSent bool
		ended      plan.PhaseEnd
		want       v1alpha1.RecreationPhase
		backOut    string
		sent       bool // DeleteSent afterwards
		over       bool
	}{
		"diverted":              {phase: diverting, ended: plan.PhaseEnd{Outcome: plan.PhaseDone}, want: emptying},
		"emptied":               {phase: emptying, ended: plan.PhaseEnd{Outcome: plan.PhaseDone}, want: swapping},
		"swapped":               {phase: swapping, deleteSent: true, ended: plan.PhaseEnd{Outcome: plan.PhaseDone}, want: giving, sent: true},
		"given back":            {phase: giving, ended: plan.PhaseEnd{Outcome: plan.PhaseDone}, want: giving, over: true},
		"a connection failed":   {phase: emptying, ended: plan.PhaseEnd{Outcome: plan.PhaseFailed}, want: emptying},
		"a consumer subscribed": {phase: emptying, ended: plan.PhaseEnd{Outcome: plan.PhaseConsumersCame}, want: giving, backOut: v1alpha1.BackOutConsumersCameBack},
		"a queue that dead-letters to it is in use": {
			phase: swapping, ended: plan.PhaseEnd{Outcome: plan.PhaseSourceInUse}, want: giving,
			backOut: v1alpha1.BackOutDeadLetterSourceInUse,
		},
		"a consumer subscribed after a delete": {
			phase: swapping, deleteSent: true, ended: plan.PhaseEnd{Outcome: plan.PhaseConsumersCame}, want: swapping, sent: true,
		},
		"refused": {phase: diverting, ended: plan.PhaseEnd{Outcome: plan.PhaseRefused}, want: giving, backOut: v1alpha1.BackOutRefused},
		"refused in GivingBack": {
			phase: giving, ended: plan.PhaseEnd{Outcome: plan.PhaseRefused}, want: giving,
		},
		"messages bypassed the bindings": {
			phase: emptying, ended: plan.PhaseEnd{Outcome: plan.PhaseMessagesCame}, want: giving, backOut: v1alpha1.BackOutPublishersPastBindings,
		},
		"accepted messages bypassed the bindings": {
			phase: emptying, ended: plan.PhaseEnd{Outcome: plan.PhaseMessagesCame, Accepts: true}, want: swapping,
		},
		"accepted messages bypassed the bindings during the swap": {
			phase: swapping, ended: plan.PhaseEnd{Outcome: plan.PhaseMessagesCame, Accepts: true}, want: emptying,
		},
		"accepted messages bypassed the bindings after a delete": {
			phase: swapping, deleteSent: true, ended: plan.PhaseEnd{Outcome: plan.PhaseMessagesCame, Accepts: true}, want: swapping, sent: true,
		},
		"accepted messages arrived for too long": {
			phase: emptying, ended: plan.PhaseEnd{Outcome: plan.PhaseMessagesCame, Accepts: true, Settled: true},
			want: giving, backOut: v1alpha1.BackOutPublishersPastBindings,
		},
		"tried the arguments of a delay tier": {phase: diverting, ended: plan.PhaseEnd{Outcome: plan.PhaseDone, WithoutHold: true}, want: swapping},
		"messages arrived in a delay tier": {
			phase: swapping, ended: plan.PhaseEnd{Outcome: plan.PhaseMessagesCame, WithoutHold: true, Accepts: true},
			want: giving, backOut: v1alpha1.BackOutMessagesCame,
		},
		"a delay tier is not proven": {phase: swapping, ended: plan.PhaseEnd{Outcome: plan.PhaseNotEmpty, WithoutHold: true}, want: swapping},
		"not proven yet":             {phase: swapping, ended: plan.PhaseEnd{Outcome: plan.PhaseNotEmpty}, want: emptying},
		"not proven":                 {phase: swapping, ended: plan.PhaseEnd{Outcome: plan.PhaseNotEmpty, Settled: true}, want: giving, backOut: v1alpha1.BackOutNotProven},
		"not proven after a delete": {
			phase: swapping, deleteSent: true, ended: plan.PhaseEnd{Outcome: plan.PhaseNotEmpty, Settled: true}, want: swapping, sent: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, over := plan.NextStep(v1alpha1.RecreationStatus{Phase: test.phase, DeleteSent: test.deleteSent}, test.ended)
			topologytest.Equal(t, "status", v1alpha1.RecreationStatus{
				Phase: test.want, BackOutReason: test.backOut, DeleteSent: test.sent,
			}, got)
			topologytest.Equal(t, "over", test.over, over)
		})
	}
}

func TestFinished(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(now)
	begun := v1alpha1.RecreationStatus{
		ID: "id", Queue: "orders", Phase: v1alpha1.RecreationGivingBack, NewArguments: "{}", DeleteSent: true,
		Attempts: 1, AttemptsGeneration: 3,
		Hold: "hold", Moved: 7, Bindings: []v1alpha1.RecordedBinding{{Source: "events"}}, ApprovedPlanHash: "h", ApprovedGeneration: 3,
	}
	topologytest.Equal(t, "completed", v1alpha1.RecreationStatus{
		ApprovedPlanHash: "h", ApprovedGeneration: 3,
		LastResult: &v1alpha1.RecreationResult{ID: "id", Queue: "orders", Result: v1alpha1.RecreationCompleted, Time: at},
	}, plan.Finished(begun, at))

	for reason, attempts := range map[string]int32{
		v1alpha1.BackOutAborted: 1, v1alpha1.BackOutConsumersCameBack: 1, v1alpha1.BackOutMessagesCame: 1, v1alpha1.BackOutStatusLost: 1,
		v1alpha1.BackOutDeadLetterSourceInUse: 1, v1alpha1.BackOutNotProven: 2, v1alpha1.BackOutPublishersPastBindings: 2, v1alpha1.BackOutRefused: 2,
	} {
		back := begun
		back.BackOutReason, back.BackOutMessage, back.DeleteSent = reason, "of a reason", false
		topologytest.Equal(t, reason, v1alpha1.RecreationStatus{
			Queue: "orders", NewArguments: "{}", Attempts: attempts, AttemptsGeneration: 3, ApprovedPlanHash: "h",
			ApprovedGeneration: 3,
			LastResult: &v1alpha1.RecreationResult{
				ID: "id", Queue: "orders", Result: v1alpha1.RecreationBackedOut, Reason: reason, Message: "of a reason", Time: at,
			},
		}, plan.Finished(back, at))
	}
}

func TestPlanned(t *testing.T) {
	t.Parallel()
	queue := topology.Queue{Name: "orders", Arguments: vhost.Arguments{"x-message-ttl": int64(5)}}
	newID := func() string { return "new" }
	last := wentBack("old", v1alpha1.BackOutNotProven, time.Hour)
	for name, test := range map[string]struct {
		former *v1alpha1.RecreationStatus
		want   v1alpha1.RecreationStatus
	}{
		"the first one": {want: v1alpha1.RecreationStatus{ID: "new"}},
		"as before": {
			former: &v1alpha1.RecreationStatus{ID: "id", Queue: "orders", NewArguments: `{"x-message-ttl":5}`, Attempts: 1, AttemptsGeneration: 7, LastResult: last},
			want:   v1alpha1.RecreationStatus{ID: "id", Attempts: 1, AttemptsGeneration: 7, LastResult: last},
		},
		"after it went back": {
			former: &v1alpha1.RecreationStatus{Queue: "orders", NewArguments: `{"x-message-ttl":5}`, Attempts: 1, LastResult: last},
			want:   v1alpha1.RecreationStatus{ID: "new", Attempts: 1, LastResult: last},
		},
		"to other arguments": {
			former: &v1alpha1.RecreationStatus{
				ID: "id", Queue: "orders", NewArguments: `{"x-message-ttl":4}`, Attempts: 3, LastResult: last,
				ApprovedPlanHash: "h", ApprovedGeneration: 3,
			},
			want: v1alpha1.RecreationStatus{ID: "new", ApprovedPlanHash: "h", ApprovedGeneration: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.Queue, test.want.Phase, test.want.NewArguments = "orders", v1alpha1.RecreationWaiting, `{"x-message-ttl":5}`
			topologytest.Equal(t, "status", test.want, plan.Planned(test.former, queue, newID))
		})
	}
}

func TestRecovered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		found   plan.Found
		phase   v1alpha1.RecreationPhase
		sent    bool
		backOut string
	}{
		"the old queue exists":                        {plan.Found{Exists: true}, v1alpha1.RecreationGivingBack, false, v1alpha1.BackOutStatusLost},
		"the old queue exists behind a fence":         {plan.Found{Exists: true, Fenced: true}, v1alpha1.RecreationSwapping, true, ""},
		"there is no queue behind a fence":            {plan.Found{Fenced: true}, v1alpha1.RecreationSwapping, true, ""},
		"there is no queue":                           {plan.Found{}, v1alpha1.RecreationGivingBack, false, ""},
		"the new queue exists":                        {plan.Found{Exists: true, IsNew: true}, v1alpha1.RecreationGivingBack, false, ""},
		"perhaps the new queue exists behind a fence": {plan.Found{Exists: true, IsNew: true, Fenced: true}, v1alpha1.RecreationGivingBack, false, v1alpha1.BackOutStatusLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.Recovered(v1alpha1.RecreationStatus{}, test.found)
			topologytest.Equal(t, "phase", test.phase, got.Phase)
			topologytest.Equal(t, "delete sent", test.sent, got.DeleteSent)
			topologytest.Equal(t, "back out", test.backOut, got.BackOutReason)
		})
	}
}

func TestConsequences(t *testing.T) {
	t.Parallel()
	main := plan.Recreation{
		Queue:    topology.Queue{Name: "orders", Role: v1alpha1.RoleMain},
		Bindings: []vhost.Binding{{Source: "shop", RoutingKey: "a"}, {Source: "shop", RoutingKey: "b"}, {Source: "audit"}},
	}
	const byName = `Warren cannot list publishers to the default exchange. For about a second, they receive nacks. Without mandatory, they can lose messages to queue "orders"`
	topologytest.Equal(t, "Migrate", []plan.Consequence{
		{For: "messages", Text: "812 when Warren counted them last; up to 100000 ready messages are moved to another queue and back"},
		{For: "consumers", Text: "Warren asks them to pause if all of them follow the contract of spec.contract; otherwise scale them to " +
			"zero first. Start them again when status.recreation.consumersMayStart is true or the condition RecreationRequired is False"},
		{For: "publishers", Text: `through exchange "audit", "shop": not affected`},
		{Text: byName},
		{For: "retries", Text: "orders.retry.30s: their messages wait a few seconds longer"},
		{For: "afterwards", Text: "moved messages have their original exchange in the header warren-exchange; delivery counts, message TTL and expiration are reset, and from RabbitMQ 4.0 on also the counts of x-death; " +
			`clients that declare queue "orders" must use the new arguments`},
	}, main.Consequences(topology.Recreation{Policy: v1alpha1.RecreatePolicyMigrate, MaxReady: 100_000}, 812, []string{"orders.retry.30s"}))
	main.Bindings = nil
	topologytest.Equal(t, "WhenEmpty", []plan.Consequence{
		{For: "messages", Text: "the queue must have no ready messages first"},
		{For: "consumers", Text: "scale them to zero first. Start them again when status.recreation.consumersMayStart is true or the condition RecreationRequired is False"},
		{For: "publishers", Text: "no binding leads to the queue"},
		{Text: byName},
		{For: "afterwards", Text: `clients that declare queue "orders" must use the new arguments`},
	}, main.Consequences(topology.Recreation{Policy: v1alpha1.RecreatePolicyWhenEmpty}, -1, nil))
	main.Refusal = "no"
	topologytest.Equal(t, "refused", []plan.Consequence{{For: "refused", Text: "no"}}, main.Consequences(topology.Recreation{}, 0, nil))
}
