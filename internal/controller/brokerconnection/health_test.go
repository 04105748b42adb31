package brokerconnection

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A connection that was Ready and fails keeps Ready=True until it has failed for three times resyncInterval: a restart of the
// broker is not worth an alert. Warren retries even if the condition is Stalled.
func TestSummarizeHealth(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	well := rabbit.Health{
		Version: "4.3.6", ClusterName: "rabbit@a", Connected: true, Matched: true, SyncedAt: now.Add(-time.Hour),
		Capabilities: management.Capabilities{Statistics: true},
	}
	newer := well
	newer.Version = "4.4.1"
	uncounted := well
	uncounted.Capabilities.Statistics = false
	failing := func(since time.Duration, err error) rabbit.Health {
		health := well
		health.Connected, health.Err, health.FailingSince = false, err, now.Add(-since)
		return health
	}
	ready := func(status metav1.ConditionStatus, generation int64) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, ObservedGeneration: generation}
	}
	var (
		wasReady    = ready("True", 3)
		refused     = fmt.Errorf("%w: user %q", brokererr.ErrAuthentication, "bob")
		noAccess    = fmt.Errorf("%w: vhost %q", brokererr.ErrAccessRefused, "/")
		noVHost     = fmt.Errorf("%w: vhost %q", brokererr.ErrVHostNotFound, "/")
		tooLarge    = fmt.Errorf("%w: %w: more than 64Mi", brokererr.ErrUnreachable, brokererr.ErrResponseTooLarge)
		mismatch    = fmt.Errorf("%w: AMQP at a leads to \"rabbit\"", brokererr.ErrClusterMismatch)
		unreachable = fmt.Errorf("%w: dial 10.0.0.1:5672", brokererr.ErrUnreachable)
	)
	type answer struct {
		value *conditions.Value
		p     conditions.Progress
		again time.Duration
	}
	says := func(value conditions.Value, p conditions.Progress) answer { return answer{value: &value, p: p} }
	for name, test := range map[string]struct {
		health   rabbit.Health
		ready    *metav1.Condition
		interval v1alpha1.Duration
		want     answer
	}{
		"connected": {
			health: well, ready: wasReady,
			want: says(conditions.True(v1alpha1.ReasonConnected, `connected to RabbitMQ 4.3.6, cluster "rabbit@a", vhost "/"`), conditions.ProgressNone),
		},
		"connected again": {
			health: well, ready: ready("False", 3),
			want: says(conditions.True(v1alpha1.ReasonConnected, `connected to RabbitMQ 4.3.6, cluster "rabbit@a", vhost "/"`), conditions.ProgressNone),
		},
		"a newer RabbitMQ than any that Warren is tested with": {
			health: newer, ready: wasReady,
			want: says(conditions.True(v1alpha1.ReasonConnected, `connected to RabbitMQ 4.4.1, cluster "rabbit@a", vhost "/"; Warren is untested `+
				`with this version, and treats it as RabbitMQ 4.3`), conditions.ProgressNone),
		},
		"the broker gathers no statistics": {
			health: uncounted, ready: wasReady,
			want: says(conditions.True(v1alpha1.ReasonConnected, `connected to RabbitMQ 4.3.6, cluster "rabbit@a", vhost "/"; the broker gathers `+
				`no statistics (management_agent.disable_metrics_collector), and Warren works without them`), conditions.ProgressNone),
		},
		"AMQP is not matched with the management API yet": {
			health: rabbit.Health{Connected: true, SyncedAt: now},
			want:   says(conditions.Unknown(v1alpha1.ReasonConnecting, "connecting to the broker"), conditions.Reconciling),
		},
		"AMQP and the management API lead to different brokers": {
			health: failing(0, mismatch), ready: wasReady,
			want: says(conditions.False(v1alpha1.ReasonClusterMismatch, `cluster mismatch: AMQP at a leads to "rabbit"`), conditions.Stalled),
		},
		"the first reconciliation":                                   {want: says(conditions.Unknown(v1alpha1.ReasonConnecting, "connecting to the broker"), conditions.Reconciling)},
		"the first reconciliation after a restart":                   {ready: wasReady, want: answer{}},
		"the first reconciliation after a restart, not Ready before": {ready: ready("False", 3), want: says(conditions.Unknown(v1alpha1.ReasonConnecting, "connecting to the broker"), conditions.Reconciling)},
		"the first reconciliation of a new generation":               {ready: ready("True", 2), want: says(conditions.Unknown(v1alpha1.ReasonConnecting, "connecting to the broker"), conditions.Reconciling)},

		"failing for a moment": {
			health: failing(0, unreachable), ready: wasReady, want: answer{again: 90 * time.Second},
		},
		"failing for almost three intervals": {
			health: failing(90*time.Second-1, unreachable), ready: wasReady, want: answer{again: 1},
		},
		"failing for three intervals": {
			health: failing(90*time.Second, unreachable), ready: wasReady,
			want: says(conditions.False(v1alpha1.ReasonBrokerUnreachable, "broker unreachable: dial 10.0.0.1:5672"), conditions.Reconciling),
		},
		"failing for less than three intervals of 2s": {
			health: failing(5*time.Second, unreachable), ready: wasReady, interval: "2s", want: answer{again: time.Second},
		},
		"failing, and the interval does not parse": {
			health: failing(0, unreachable), ready: wasReady, interval: "1 day",
			want: says(conditions.False(v1alpha1.ReasonBrokerUnreachable, "broker unreachable: dial 10.0.0.1:5672"), conditions.Reconciling),
		},
		"failing, and never Ready": {
			health: failing(0, unreachable),
			want:   says(conditions.False(v1alpha1.ReasonBrokerUnreachable, "broker unreachable: dial 10.0.0.1:5672"), conditions.Reconciling),
		},
		"failing for an hour, not Ready before": {
			health: failing(time.Hour, unreachable), ready: ready("False", 3),
			want: says(conditions.False(v1alpha1.ReasonBrokerUnreachable, "broker unreachable: dial 10.0.0.1:5672"), conditions.Reconciling),
		},
		"failing with a new generation": {
			health: failing(0, unreachable), ready: ready("True", 2),
			want: says(conditions.False(v1alpha1.ReasonBrokerUnreachable, "broker unreachable: dial 10.0.0.1:5672"), conditions.Reconciling),
		},
		"the broker refuses known credentials for a moment": {
			health: failing(0, refused), ready: wasReady, want: answer{again: 90 * time.Second},
		},
		"the broker refuses new credentials": {
			health: rabbit.Health{Err: refused, FailingSince: now}, ready: wasReady,
			want: says(conditions.False(v1alpha1.ReasonAuthenticationFailed, `authentication failed: user "bob"`), conditions.Stalled),
		},
		"the broker refuses credentials, never Ready": {
			health: failing(0, refused),
			want:   says(conditions.False(v1alpha1.ReasonAuthenticationFailed, `authentication failed: user "bob"`), conditions.Stalled),
		},
		"a permission is missing": {
			health: failing(0, noAccess),
			want:   says(conditions.False(v1alpha1.ReasonPermissionDenied, `access refused: vhost "/"`), conditions.Stalled),
		},
		"the vhost is missing": {
			health: failing(0, noVHost),
			want:   says(conditions.False(v1alpha1.ReasonVHostNotFound, `vhost not found: vhost "/"`), conditions.Stalled),
		},
		"a response is too large": {
			health: failing(0, tooLarge),
			want:   says(conditions.False(v1alpha1.ReasonResponseTooLarge, "broker unreachable: response too large: more than 64Mi"), conditions.Stalled),
		},
		"an error that a person must fix is reported before an error that may pass": {
			health: failing(0, fmt.Errorf("%w; %w", unreachable, refused)),
			want: says(conditions.False(v1alpha1.ReasonAuthenticationFailed,
				`broker unreachable: dial 10.0.0.1:5672; authentication failed: user "bob"`), conditions.Stalled),
		},
		"an unknown error": {
			health: failing(0, errors.New("unknown error")),
			want:   says(conditions.False(v1alpha1.ReasonBrokerUnreachable, "unknown error"), conditions.Reconciling),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{ResyncInterval: test.interval})
			if test.ready != nil {
				bc.Status.Conditions = []metav1.Condition{*test.ready}
			}
			value, p, again := summarizeHealth(test.health, bc, now)
			topologytest.Equal(t, "answer", test.want, answer{value, p, again}, cmp.AllowUnexported(answer{}, conditions.Value{}))
		})
	}
}
