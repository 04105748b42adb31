package consumerqueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/plan/plantest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

var comparingVerdicts = cmp.AllowUnexported(summary{}, conditions.Value{})

// failed returns the error that Apply returns if it cannot declare a queue.
func failed(queue string, reason error) error {
	return &brokererr.ObjectError{Op: "declare", ID: vhost.QueueID(queue), VHost: "/", Err: reason}
}

// The conditions in each situation, as in the table of docs/status.md: Ready, Drifted and RecreationRequired with their
// reasons, and either Reconciling (Warren continues by itself) or Stalled (a user must act).
func TestSummarize(t *testing.T) {
	t.Parallel()
	const plain = `{retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	const withTTL = `{queue: {messageTTL: 5m}, retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	const withReturn = `{
		retry: {delayTiers: [{delay: 30s, queueName: tier}], returnTo: {exchange: back, routingKey: again}},
		deadLetter: {policy: Disabled}
	}`
	const (
		mustDeclare  = `exchange "legacy" does not exist, and Warren does not declare it without a type: declare it, or set spec.bindings[].exchange.type`
		noReturn     = `exchange "back" of retry.returnTo does not exist: messages would be lost after their delay, or stay in their delay tier; declare the exchange, or add it to spec.bindings with a type`
		ttlRecreate  = `queue "orders" must be recreated: x-message-ttl is not set, should be 300000`
		ttlChange    = `x-message-ttl is not set, should be 300000; the queue must be recreated`
		limitUpgrade = `queue "dlq" must be recreated: x-delivery-limit is not set, should be -1`
		upgradeNote  = `. These objects match the spec for an older RabbitMQ and still work. Recreate them when convenient. Until then RabbitMQ dead-letters or drops a message that is returned more than 20 times to a queue without x-delivery-limit`
	)
	var (
		same    = conditions.False(v1alpha1.ReasonInSync, "the broker matches the spec")
		noneToo = conditions.False(v1alpha1.ReasonInSync, "no object needs to be recreated")
	)
	drift := func(message string) *conditions.Value {
		value := conditions.True(v1alpha1.ReasonDrifted, message)
		return &value
	}
	mustRecreate := func(message string) *conditions.Value {
		value := conditions.True(v1alpha1.ReasonRecreationRequired, message)
		return &value
	}
	upgraded := func(message string) *conditions.Value {
		value := conditions.True(v1alpha1.ReasonBrokerUpgraded, message+upgradeNote)
		return &value
	}
	without := func(queues ...string) func(o vhost.Observed) {
		return func(o vhost.Observed) {
			for _, name := range queues {
				delete(o.Queues, name)
			}
		}
	}
	for name, test := range map[string]struct {
		plantest.Scenario

		policy  v1alpha1.DriftPolicy
		applied error
		want    summary
	}{
		"in sync": {
			Scenario: plantest.Scenario{Was: plain},
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 4 objects match the spec"),
				drifted: &same, recreation: &noneToo,
			},
		},
		"in sync under Report": {
			Scenario: plantest.Scenario{Was: plain}, policy: v1alpha1.DriftPolicyReport,
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 4 objects match the spec"),
				drifted: &same, recreation: &noneToo,
			},
		},
		"one object in sync": {
			Scenario: plantest.Scenario{Was: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`},
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "the object matches the spec"),
				drifted: &same, recreation: &noneToo,
			},
		},
		"a foreign binding is not drift and not counted": {
			Scenario: plantest.Scenario{Was: plain, Then: func(o vhost.Observed) {
				topologytest.Bind(&o, vhost.Binding{Source: "elsewhere", Destination: "orders"})
			}},
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 4 objects match the spec"),
				drifted: &same, recreation: &noneToo,
			},
		},
		"correcting": {
			Scenario: plantest.Scenario{Was: plain, Then: without("orders", "dlq")},
			want: summary{
				ready:    conditions.Unknown(v1alpha1.ReasonCorrecting, `queue "orders" is missing; queue "dlq" is missing`),
				progress: conditions.Reconciling,
				drifted:  drift(`queue "orders" is missing; queue "dlq" is missing`), recreation: &noneToo,
			},
		},
		"correcting failed for a transient reason": {
			Scenario: plantest.Scenario{Was: plain, Then: without("orders", "dlq")},
			applied:  errors.Join(failed("orders", brokererr.ErrTimeout), failed("dlq", brokererr.ErrUnreachable)),
			want: summary{
				ready: conditions.Unknown(v1alpha1.ReasonCorrecting,
					`declare queue "orders" in vhost "/": broker unreachable: no answer in time; declare queue "dlq" in vhost "/": broker unreachable`),
				progress: conditions.Reconciling,
				drifted:  drift(`queue "orders" is missing; queue "dlq" is missing`), recreation: &noneToo,
			},
		},
		"RabbitMQ cannot start a quorum queue": {
			Scenario: plantest.Scenario{Was: plain, Then: without("dlq")},
			applied:  failed("dlq", brokererr.ErrQueueNotStarted),
			want: summary{
				ready: conditions.False(v1alpha1.ReasonQueueNotStarted, `declare queue "dlq" in vhost "/": quorum queue not started. If a majority of `+
					`the nodes runs and this condition persists, the supervisor of dead-letter workers has stopped on a node (its log says rabbit_fifo_dlx_sup): restart that node`),
				progress: conditions.Reconciling,
				drifted:  drift(`queue "dlq" is missing`), recreation: &noneToo,
			},
		},
		"correcting failed, and no object is missing any more": {
			Scenario: plantest.Scenario{Was: plain}, applied: failed("orders", brokererr.ErrPreconditionFailed),
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 4 objects match the spec"),
				drifted: &same, recreation: &noneToo,
			},
		},
		"drift under Report": {
			Scenario: plantest.Scenario{Was: plain, Then: func(o vhost.Observed) { topologytest.UnbindFrom(&o, "dlx", "dlq") }}, policy: v1alpha1.DriftPolicyReport,
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonDrifted, `queue "dlq" is not bound to exchange "dlx" with routing key ""`),
				progress: conditions.Stalled,
				drifted:  drift(`queue "dlq" is not bound to exchange "dlx" with routing key ""`), recreation: &noneToo,
			},
		},
		"more drift than fits a line": {
			Scenario: plantest.Scenario{
				Was:  `{bindings: [{exchange: {name: e, type: direct}, routingKeys: [a, b, c, d, e, f, g]}], retry: {policy: None}}`,
				Then: func(o vhost.Observed) { topologytest.UnbindFrom(&o, "e", "orders") },
			},
			policy: v1alpha1.DriftPolicyReport,
			want: func() summary {
				message := ""
				for _, key := range []string{"a", "b", "c", "d", "e"} {
					message += fmt.Sprintf(`queue "orders" is not bound to exchange "e" with routing key %q; `, key)
				}
				message += "and 2 more"
				return summary{
					ready: conditions.False(v1alpha1.ReasonDrifted, message), progress: conditions.Stalled,
					drifted: drift(message), recreation: &noneToo,
				}
			}(),
		},
		"an immutable difference": {
			Scenario: plantest.Scenario{Was: plain, Spec: withTTL},
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonRecreationRequired, ttlRecreate),
				progress: conditions.Stalled, drifted: drift(ttlChange), recreation: mustRecreate(ttlRecreate),
			},
		},
		"immutable differences of several objects": {
			Scenario: plantest.Scenario{Was: plain, Then: func(o vhost.Observed) {
				topologytest.SetArgument(&o, "orders", "x-max-length", 9)
				topologytest.SetArgument(&o, "orders", "x-message-ttl", 1)
				o.Exchanges["dlx"] = vhost.Exchange{Type: "topic", Durable: true}
			}},
			want: func() summary {
				message := `exchange "dlx" must be recreated: type is topic, should be fanout. ` +
					`queue "orders" must be recreated: x-max-length is 9, should not be set; x-message-ttl is 1, should not be set`
				return summary{
					ready: conditions.False(v1alpha1.ReasonRecreationRequired, message), progress: conditions.Stalled,
					drifted: drift(`type is topic, should be fanout; the exchange must be recreated; ` +
						`x-max-length is 9, should not be set; the queue must be recreated; ` +
						`x-message-ttl is 1, should not be set; the queue must be recreated`),
					recreation: mustRecreate(message),
				}
			}(),
		},
		"an immutable difference is reported before a missing exchange": {
			Scenario: plantest.Scenario{
				Was:  plain,
				Spec: `{queue: {messageTTL: 5m}, bindings: [{exchange: {name: legacy}}], retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`,
			},
			want: summary{
				ready:      conditions.False(v1alpha1.ReasonRecreationRequired, ttlRecreate),
				progress:   conditions.Stalled,
				drifted:    drift(mustDeclare + "; " + ttlChange + `; queue "orders" is not bound to exchange "legacy" with routing key ""`),
				recreation: mustRecreate(ttlRecreate),
			},
		},
		"the broker refuses a queue that it does not list": {
			Scenario: plantest.Scenario{Was: plain, Then: without("orders")}, applied: failed("orders", brokererr.ErrPreconditionFailed),
			want: summary{
				ready:      conditions.False(v1alpha1.ReasonRecreationRequired, `declare queue "orders" in vhost "/": precondition failed`),
				progress:   conditions.Stalled,
				drifted:    drift(`queue "orders" is missing`),
				recreation: mustRecreate(`declare queue "orders" in vhost "/": precondition failed`),
			},
		},
		"the broker does not take an argument": {
			Scenario: plantest.Scenario{Was: plain, Then: without("orders")}, applied: failed("orders", brokererr.ErrInvalidArgument),
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonUnsupportedByBroker, `declare queue "orders" in vhost "/": invalid argument`),
				progress: conditions.Stalled,
				drifted:  drift(`queue "orders" is missing`), recreation: &noneToo,
			},
		},
		"the arguments are too large for a frame": {
			Scenario: plantest.Scenario{Was: plain, Then: without("orders")}, applied: failed("orders", brokererr.ErrTooLarge),
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonInvalidSpec, `declare queue "orders" in vhost "/": too large for AMQP`),
				progress: conditions.Stalled,
				drifted:  drift(`queue "orders" is missing`), recreation: &noneToo,
			},
		},
		"a queue is exclusive to another connection": {
			Scenario: plantest.Scenario{Was: plain, Spec: withTTL, Then: without("dlq")}, applied: failed("dlq", brokererr.ErrResourceLocked),
			want: summary{
				ready:      conditions.False(v1alpha1.ReasonRecreationRequired, ttlRecreate+`. declare queue "dlq" in vhost "/": resource locked`),
				progress:   conditions.Stalled,
				drifted:    drift(ttlChange + `; queue "dlq" is missing`),
				recreation: mustRecreate(ttlRecreate + `. declare queue "dlq" in vhost "/": resource locked`),
			},
		},
		"only explained by a broker upgrade": {
			Scenario: plantest.Scenario{Was: plain, From: topologytest.V313, On: topologytest.V40},
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 4 objects match the spec for this or an older RabbitMQ"),
				drifted: &same, recreation: upgraded(limitUpgrade),
			},
		},
		"only explained by a broker upgrade, under Report": {
			Scenario: plantest.Scenario{Was: plain, From: topologytest.V313, On: topologytest.V40}, policy: v1alpha1.DriftPolicyReport,
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 4 objects match the spec for this or an older RabbitMQ"),
				drifted: &same, recreation: upgraded(limitUpgrade),
			},
		},
		"a broker upgrade explains the new bindings of upgraded objects": {
			Scenario: plantest.Scenario{Was: `{retry: {strategy: Reject}}`, From: topologytest.V313, On: topologytest.V40},
			want: summary{
				ready:   conditions.True(v1alpha1.ReasonInSync, "all 8 objects match the spec for this or an older RabbitMQ"),
				drifted: &same,
				recreation: upgraded(`exchange "orders.dlx" must be recreated: type is fanout, should be headers. ` +
					`queue "orders" must be recreated: x-dead-letter-exchange is "", should be orders.dlx; ` +
					`x-dead-letter-routing-key is orders.retry.30s, should not be set. ` +
					`queue "orders.dlq" must be recreated: x-delivery-limit is not set, should be -1`),
			},
		},
		"a broker upgrade does not explain a deleted queue": {
			Scenario: plantest.Scenario{Was: plain, From: topologytest.V313, On: topologytest.V40, Then: without("orders")}, applied: failed("orders", brokererr.ErrUnreachable),
			want: summary{
				ready:    conditions.Unknown(v1alpha1.ReasonCorrecting, `declare queue "orders" in vhost "/": broker unreachable`),
				progress: conditions.Reconciling,
				drifted:  drift(`queue "orders" is missing`), recreation: upgraded(limitUpgrade),
			},
		},
		"a broker upgrade does not explain a missing exchange": {
			Scenario: plantest.Scenario{
				Was: `{bindings: [{exchange: {name: legacy}}], retry: {policy: None}, deadLetter: {queue: {name: dlq}}}`, From: topologytest.V313, On: topologytest.V40,
				Then: func(o vhost.Observed) { delete(o.Exchanges, "legacy") },
			},
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonExchangeMissing, mustDeclare),
				progress: conditions.Reconciling,
				drifted:  drift(mustDeclare), recreation: upgraded(limitUpgrade),
			},
		},
		"a source exchange is missing": {
			Scenario: plantest.Scenario{Was: plain, Spec: `{bindings: [{exchange: {name: legacy}}], retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`},
			want: summary{
				ready:      conditions.False(v1alpha1.ReasonExchangeMissing, mustDeclare),
				progress:   conditions.Reconciling,
				drifted:    drift(mustDeclare + `; queue "orders" is not bound to exchange "legacy" with routing key ""`),
				recreation: &noneToo,
			},
		},
		"the return route is missing": {
			Scenario: plantest.Scenario{Was: withReturn},
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonReturnRouteMissing, noReturn),
				progress: conditions.Reconciling,
				drifted:  drift(noReturn), recreation: &noneToo,
			},
		},
		"a missing queue is corrected before a missing return route is reported": {
			Scenario: plantest.Scenario{Was: withReturn, Then: without("tier")},
			want: summary{
				ready:    conditions.Unknown(v1alpha1.ReasonCorrecting, `queue "tier" is missing; `+noReturn),
				progress: conditions.Reconciling,
				drifted:  drift(`queue "tier" is missing; ` + noReturn), recreation: &noneToo,
			},
		},
		"a permission is missing": {
			Scenario: plantest.Scenario{Spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`}, applied: failed("orders", fmt.Errorf("%w: configure", brokererr.ErrAccessRefused)),
			want: summary{
				ready:    conditions.False(v1alpha1.ReasonPermissionDenied, `declare queue "orders" in vhost "/": access refused: configure`),
				progress: conditions.Stalled,
				drifted:  drift(`queue "orders" is missing`), recreation: &noneToo,
			},
		},
		"a missing permission is reported before an immutable difference": {
			Scenario: plantest.Scenario{Was: plain, Spec: withTTL, Then: without("dlq")},
			applied:  errors.Join(failed("dlq", brokererr.ErrAccessRefused), brokererr.ErrTimeout),
			want: summary{
				ready:      conditions.False(v1alpha1.ReasonPermissionDenied, `declare queue "dlq" in vhost "/": access refused; broker unreachable: no answer in time`),
				progress:   conditions.Stalled,
				drifted:    drift(ttlChange + `; queue "dlq" is missing`),
				recreation: mustRecreate(ttlRecreate),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			played := test.Play(t)
			got := summarize(played.Comparison, played.Known, test.policy, test.applied)
			topologytest.Equal(t, "verdict", test.want, got, comparingVerdicts)
			topologytest.Equal(t, "in sync", test.want.ready.Reason == v1alpha1.ReasonInSync, got.inSync())
		})
	}
}

// After a broker upgrade, new objects wait for a recreation although the existing objects are fine.
func TestSummarizeNewObjectsAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	played := plantest.Scenario{
		Was:  `{retry: {policy: None}, deadLetter: {queue: {name: dlq}}}`,
		From: topologytest.V313,
		Spec: `{retry: {policy: None}, deadLetter: {queue: {name: dlq}}, bindings: [{exchange: {name: events, type: fanout}}]}`,
		On:   topologytest.V40,
	}.Play(t)
	got := summarize(played.Comparison, played.Known, v1alpha1.DriftPolicyCorrect, nil)
	const missing = `fanout exchange "events" is missing; queue "orders" is not bound to exchange "events" with routing key ""`
	topologytest.Equal(t, "ready", conditions.False(v1alpha1.ReasonRecreationRequired,
		`queue "dlq" must be recreated: x-delivery-limit is not set, should be -1. Until the recreation, Warren declares no new object, `+
			`except sources if nothing else is missing. Differences: `+missing),
		got.ready, comparingVerdicts)
	topologytest.Equal(t, "progress", conditions.Stalled, got.progress)
	topologytest.Equal(t, "drifted", conditions.True(v1alpha1.ReasonDrifted, missing), *got.drifted, comparingVerdicts)
	topologytest.Equal(t, "recreation", v1alpha1.ReasonBrokerUpgraded, got.recreation.Reason)
}

// If nothing was compared, Drifted is Unknown. Waiting keeps RecreationRequired, and a refusal sets it to Unknown.
func TestVerdictsWithoutAComparison(t *testing.T) {
	t.Parallel()
	unknown := conditions.Unknown("Why", "because")
	topologytest.Equal(t, "waiting", summary{ready: conditions.False("Why", "because"), progress: conditions.Reconciling, drifted: &unknown},
		summaryOfWaiting("Why", "because"), comparingVerdicts)
	topologytest.Equal(t, "refused", summary{ready: conditions.False("Why", "because"), progress: conditions.Stalled, drifted: &unknown, recreation: &unknown},
		summaryOfRefusal("Why", "because"), comparingVerdicts)
}

// RabbitMQ may never answer the declaration of one queue, and answer everything else.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	binding := &brokererr.ObjectError{Op: brokererr.OpBind, ID: vhost.ID{Kind: vhost.KindBinding, Destination: "orders"}, Err: brokererr.ErrTimeout}
	plain := errors.New("something else")
	for name, test := range map[string]struct {
		applied error
		want    []error
		not     error
	}{
		"a queue":                    {applied: failed("orders", brokererr.ErrTimeout), want: []error{brokererr.ErrQueueNotStarted}, not: brokererr.ErrUnreachable},
		"a queue and a binding":      {applied: errors.Join(failed("orders", brokererr.ErrTimeout), binding), want: []error{brokererr.ErrQueueNotStarted, binding}},
		"a queue and a locked queue": {applied: errors.Join(failed("orders", brokererr.ErrTimeout), failed("dlq", brokererr.ErrResourceLocked)), want: []error{brokererr.ErrQueueNotStarted, brokererr.ErrResourceLocked}},
		"a binding":                  {applied: binding, want: []error{binding}, not: brokererr.ErrQueueNotStarted},
		"no object":                  {applied: plain, want: []error{plain}},
	} {
		got := unanswered(test.applied)
		for _, want := range test.want {
			if !errors.Is(got, want) {
				t.Errorf("%s: %v is not %v", name, got, want)
			}
		}
		if test.not != nil && errors.Is(got, test.not) {
			t.Errorf("%s: %v is %v", name, got, test.not)
		}
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	transient := failed("orders", brokererr.ErrTimeout)
	topologytest.Equal(t, "a transient error", true, errors.Is(retryable(transient), transient))
	many := make([]error, 4096)
	for i := range many {
		many[i] = failed("orders", brokererr.ErrTimeout)
	}
	topologytest.Equal(t, "lines of many errors", 0, strings.Count(retryable(errors.Join(many...)).Error(), "\n"))
	topologytest.Equal(t, "is short", true, len(retryable(errors.Join(many...)).Error()) < 1000)
	for _, lasting := range []error{
		nil, brokererr.ErrAccessRefused, brokererr.ErrPreconditionFailed, brokererr.ErrInvalidArgument, brokererr.ErrTooLarge, brokererr.ErrResourceLocked,
	} {
		if err := retryable(errors.Join(transient, lasting)); lasting != nil && err != nil {
			t.Errorf("%v is retried immediately: %v", lasting, err)
		}
	}
}

func TestInSyncMessageCountsDesiredObjects(t *testing.T) {
	t.Parallel()
	comparison := plan.Comparison{}
	for _, hash := range []string{"one", "two", "", ""} { // an orphan and a foreign binding are not desired
		comparison.Entries = append(comparison.Entries, plan.Entry{Hash: hash})
	}
	topologytest.Equal(t, "message", "all 2 objects match the spec", inSyncMessage(comparison))
}
