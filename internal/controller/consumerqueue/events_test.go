package consumerqueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/plan/plantest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// attempt is one reconciliation: the state of the broker, and whether declaring fails.
type attempt struct {
	spec  string
	on    vhost.Version
	then  func(s *snapshot.Snapshot)
	fails error
	// want are the Events of this reconciliation.
	want []occurrence
}

const (
	twoQueues = `{retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	withLimit = `{queue: {maxLength: 9}, retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
)

// Events are recorded on transitions only. Each case is a history of reconciliations of one ConsumerQueue. While it is drifted,
// further drift and its correction record no Event.
func TestEventsOfTransitions(t *testing.T) {
	t.Parallel()
	const (
		limitEvent = `queue "orders" must be recreated: x-max-length is not set, should be 9`
	)
	var (
		declared  = occurrence{"Normal", "Declared", "Declare", "declared 1 exchange, 2 queues and 1 binding"}
		missing   = occurrence{"Warning", "DriftDetected", "Compare", `queue "orders" is missing`}
		corrected = occurrence{"Normal", "DriftCorrected", "Correct", "declared 1 queue; the broker matches the spec again"}
		recreate  = occurrence{"Warning", "RecreationRequired", "Compare", limitEvent}
	)
	deleted := func(s *snapshot.Snapshot) { s.DropQueue("orders") }
	declared43 := func(s *snapshot.Snapshot) { declare(s, topologytest.Desired(t, twoQueues, topologytest.V43)) }
	for name, test := range map[string]struct {
		policy   v1alpha1.DriftPolicy
		attempts []attempt
	}{
		"a declaration records one Event": {attempts: []attempt{{spec: twoQueues, want: []occurrence{declared}}, {spec: twoQueues}}},
		"an adoption records no Event": {attempts: []attempt{
			{spec: twoQueues, then: declared43},
		}},
		"declared at the second attempt": {attempts: []attempt{
			{spec: twoQueues, fails: brokererr.ErrUnreachable},
			{spec: twoQueues, want: []occurrence{declared}},
			{spec: twoQueues},
		}},
		"drift is detected and corrected": {attempts: []attempt{
			{spec: twoQueues, want: []occurrence{declared}},
			{spec: twoQueues, then: deleted, want: []occurrence{missing, corrected}},
			{spec: twoQueues},
			{spec: twoQueues, then: deleted, want: []occurrence{missing, corrected}},
		}},
		"drift is corrected at the third attempt": {attempts: []attempt{
			{spec: twoQueues, want: []occurrence{declared}},
			{spec: twoQueues, then: deleted, fails: brokererr.ErrUnreachable, want: []occurrence{missing}},
			{spec: twoQueues, fails: brokererr.ErrTimeout},
			{spec: twoQueues, want: []occurrence{corrected}},
			{spec: twoQueues},
		}},
		"drift after a broker upgrade": {attempts: []attempt{
			{spec: twoQueues, on: topologytest.V313, want: []occurrence{declared}},
			{spec: twoQueues, on: topologytest.V40, want: []occurrence{{
				"Warning", "RecreationRequired", "Compare", `queue "dlq" must be recreated: x-delivery-limit is not set, should be -1` +
					". These objects match the spec for an older RabbitMQ and still work. Recreate them when convenient. Until then RabbitMQ dead-letters or drops a message that is returned more than 20 times to a queue without x-delivery-limit",
			}}},
			{spec: twoQueues, on: topologytest.V40, then: deleted, want: []occurrence{missing, corrected}},
			{spec: twoQueues, on: topologytest.V40},
		}},
		"drift under Report": {policy: v1alpha1.DriftPolicyReport, attempts: []attempt{
			{spec: twoQueues, then: declared43},
			{spec: twoQueues, then: deleted, want: []occurrence{missing}},
			{spec: twoQueues},
			{spec: twoQueues, then: declared43},
			{spec: twoQueues, then: deleted, want: []occurrence{missing}},
		}},
		"recreation is required": {attempts: []attempt{
			{spec: twoQueues, want: []occurrence{declared}},
			{spec: withLimit, want: []occurrence{recreate}},
			{spec: withLimit},
			{spec: twoQueues},
			{spec: withLimit, want: []occurrence{recreate}},
		}},
		"recreation is required under Report": {policy: v1alpha1.DriftPolicyReport, attempts: []attempt{
			{spec: twoQueues, then: declared43},
			{spec: withLimit, want: []occurrence{
				{"Warning", "DriftDetected", "Compare", "x-max-length is not set, should be 9; the queue must be recreated"},
				recreate,
			}},
			{spec: withLimit},
		}},
		"recreation is required, and a binding is corrected": {attempts: []attempt{
			{spec: twoQueues, want: []occurrence{declared}},
			{spec: withLimit, then: func(s *snapshot.Snapshot) { s.DropBinding(vhost.Binding{Source: "dlx", Destination: "dlq"}) }, want: []occurrence{
				{"Warning", "DriftDetected", "Compare", `queue "dlq" is not bound to exchange "dlx" with routing key ""`},
				recreate,
			}},
			{spec: withLimit},
		}},
		"the spec adds an exchange": {attempts: []attempt{
			{spec: twoQueues, want: []occurrence{declared}},
			{
				spec: `{retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}, bindings: [{exchange: {name: events, type: fanout}}]}`,
				want: []occurrence{{"Normal", "Declared", "Declare", "declared 1 exchange and 1 binding"}},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := controllertest.ConsumerQueue(t, test.attempts[0].spec)
			first.Spec.DriftPolicy = test.policy
			w := newWorld(t, first)
			for i, a := range test.attempts {
				if a.on != (vhost.Version{}) {
					w.broker.SetHealth(func(health *rabbit.Health) { health.Version = a.on.String() })
				}
				if a.then != nil {
					w.broker.Change(a.then)
				}
				w.broker.FailAll(a.fails)
				spec := controllertest.ConsumerQueue(t, a.spec).Spec
				spec.DriftPolicy = test.policy
				w.edit(spec)
				occurred, err := w.reconcile()
				topologytest.Equal(t, fmt.Sprintf("attempt %d fails", i+1), a.fails != nil, err != nil)
				topologytest.Equal(t, fmt.Sprintf("events of attempt %d", i+1), a.want, occurred, comparingOccurrences)
			}
		})
	}
}

// Another client declared what was missing while Warren's declaration failed: the drift is over.
func TestDriftIsCorrectedByAnotherClient(t *testing.T) {
	t.Parallel()
	played := plantest.Scenario{Was: twoQueues}.Play(t)
	s := reportOn(controllertest.ConsumerQueue(t, twoQueues))
	done := plan.Plan{Drift: true, Actions: declaringQueue("orders")}
	failure := errors.New("no answer")
	outcome := summarize(played.Comparison, played.Known, v1alpha1.DriftPolicyCorrect, failure)
	s.recordTransitions(done, []v1alpha1.Change{{Message: "it is missing"}}, outcome, failure)
	topologytest.Equal(t, "events", []occurrence{
		{"Warning", "DriftDetected", "Compare", "it is missing"},
		{"Normal", "DriftCorrected", "Correct", "declared 1 queue; the broker matches the spec again"},
	}, s.events, comparingOccurrences)
}

// A note has at most 1024 bytes. The API server refuses an Event whose note is not valid UTF-8.
func TestRecordEvents(t *testing.T) {
	t.Parallel()
	recorder := &controllertest.EventLog{}
	s := &scope{Reconciler: &Reconciler{recorder: recorder}, report: reportOn(controllertest.ConsumerQueue(t, `{}`))}
	s.addEvent("Normal", "Declared", "Declare", "100% done")
	for offset := range 2 {
		s.addEvent("Normal", "Declared", "Declare", strings.Repeat("x", offset)+strings.Repeat("ä", 600))
	}
	s.recordEvents()
	topologytest.Equal(t, "first note", "100% done", recorder.Notes[0])
	topologytest.Equal(t, "events", 3, len(recorder.Notes))
	for _, note := range recorder.Notes[1:] {
		if !utf8.ValidString(note) || len(note) > 1024 || len(note) < 1020 {
			t.Errorf("%d bytes, ending in %q", len(note), note[len(note)-8:])
		}
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	type outcome struct {
		written bool
		events  []string
		failed  bool
	}
	change := func(status *v1alpha1.ConsumerQueueStatus) {
		conditions.For(&status.Conditions, 3).SetReady(conditions.Unknown("Correcting", "still"), conditions.Reconciling)
	}
	for name, test := range map[string]struct {
		change   func(status *v1alpha1.ConsumerQueueStatus)
		missing  bool
		broken   bool
		conflict bool // the write conflicts until the version is current
		old      bool
		want     outcome
	}{
		"a changed status is written, and Events are recorded":        {change: change, want: outcome{written: true, events: []string{"DriftDetected"}}},
		"an unchanged status is not written, and Events are recorded": {want: outcome{events: []string{"DriftDetected"}}},
		"the resource is gone": {change: change, missing: true},
		"the API server fails": {change: change, broken: true, want: outcome{failed: true}},
		"the resource changed in the meantime, and its status did not": {change: change, conflict: true, want: outcome{written: true, events: []string{"DriftDetected"}}},
		"the reconciliation began with an old status":                  {change: change, conflict: true, old: true, want: outcome{failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := controllertest.ConsumerQueue(t, `{}`)
			stored.ResourceVersion = "2"
			read := stored.DeepCopy()
			read.ResourceVersion = "1"
			if test.old {
				stored.Status.QueueName = "written since"
			}
			cq := read.DeepCopy()
			written := false
			builder := controllertest.ClientBuilder(t, []controllertest.AddIndexes{brokers.AddIndexes}).WithObjects(stored)
			builder.WithInterceptorFuncs(controllertest.StatusUpdate(func() error {
				switch {
				case test.missing:
					return controllertest.NotFound(cq.Name)
				case test.broken:
					return errors.New("the API server is down")
				case test.conflict && cq.ResourceVersion == read.ResourceVersion:
					return controllertest.Conflict(cq.Name)
				}
				written = true
				return nil
			}))
			recorder, c := &controllertest.EventLog{}, builder.Build()
			s := &scope{
				Reconciler: &Reconciler{client: c, live: c, recorder: recorder},
				report:     reportOn(cq),
			}
			s.addEvent("Warning", eventDriftDetected, "Compare", "it is missing")
			if test.change != nil {
				test.change(s.status)
			}
			err := s.finish(t.Context())
			got := outcome{written, recorder.Reasons, err != nil}
			topologytest.Equal(t, "outcome", test.want, got, comparing[outcome]())
		})
	}
}
