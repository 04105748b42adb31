package redrive

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	progress := transfer.Progress{Moved: 5, Skipped: map[string]int{"NotSelected": 3}}
	for i := range 12 {
		progress.Failures = append(progress.Failures, transfer.Failure{
			ID: fmt.Sprint(i), Reason: transfer.FailureRefused, Message: strings.Repeat("x", 2000),
		})
	}
	status := &v1alpha1.RedriveStatus{Skipped: map[string]int64{"CameBack": 1}}
	record(status, progress)
	topologytest.Equal(t, "moved", 5, *status.Moved)
	topologytest.Equal(t, "failed", 12, *status.Failed)
	topologytest.Equal(t, "examined", 20, *status.Examined)
	topologytest.Equal(t, "skipped", map[string]int64{"NotSelected": 3}, status.Skipped)
	topologytest.Equal(t, "failures that are listed", 10, len(status.Failures))
	topologytest.Equal(t, "first failure", "0 Refused", status.Failures[0].ID+" "+status.Failures[0].Reason)
	topologytest.Equal(t, "message is cut", true, len(status.Failures[0].Message) <= 1024)
	record(status, transfer.Progress{})
	topologytest.Equal(t, "skipped of none", nil, status.Skipped)
	topologytest.Equal(t, "failures of none", nil, status.Failures)
}

func TestWhatATransferDoesIsTheReasonOfReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state      transfer.State
		detail, to string
		want       conditions.Value
	}{
		"it has not begun":      {"", "", "orders", conditions.Unknown("Moving", `moves messages from queue "orders.dlq" to queue "orders"`)},
		"it moves":              {transfer.Moving, "", "orders", conditions.Unknown("Moving", `moves messages from queue "orders.dlq" to queue "orders"`)},
		"it moves to several":   {transfer.Moving, "", "", conditions.Unknown("Moving", `moves messages from queue "orders.dlq"`)},
		"it connects again":     {transfer.Connecting, "refused", "orders", conditions.Unknown("Moving", "connects again: refused")},
		"its destination fills": {transfer.DestinationFull, "queue full", "orders", conditions.Unknown("DestinationFull", "queue full")},
		"the broker blocks":     {transfer.Blocked, "low on memory", "orders", conditions.Unknown("Blocked", "low on memory")},
	} {
		topologytest.Equal(t, name, test.want, doing(test.state, test.detail, "orders.dlq", test.to))
	}
	for state, reason := range map[transfer.State]string{
		transfer.SourceMissing: v1alpha1.ReasonSourceMissing, transfer.DestinationMissing: v1alpha1.ReasonDestinationMissing,
		transfer.DestinationFull: v1alpha1.ReasonDestinationFull, transfer.DestinationBusy: v1alpha1.ReasonDestinationBusy,
		transfer.Blocked: v1alpha1.ReasonBlocked,
	} {
		topologytest.Equal(t, "reason of "+string(state), reason, doing(state, "why", "", "").Reason)
	}
}

// A million messages at full speed take about a minute, and at 100 a second three hours.
func TestWritesOfAStatusAreBounded(t *testing.T) {
	t.Parallel()
	for takes, most := range map[time.Duration]int{62 * time.Second: 13, 10000 * time.Second: 350} {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		writes, written := 0, start
		for now := start; now.Before(start.Add(takes)); now = now.Add(250 * time.Millisecond) {
			if untilWrite(now, start, written, false) == 0 {
				writes, written = writes+1, now
			}
		}
		if writes > most || writes < most/2 {
			t.Errorf("%d writes in %v, want at most %d", writes, takes, most)
		}
	}
	late := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	start := late.Add(-time.Hour)
	topologytest.Equal(t, "wait for a number", 30*time.Second, untilWrite(late, start, late, false))
	topologytest.Equal(t, "wait for another state", 5*time.Second, untilWrite(late, start, late, true))
	topologytest.Equal(t, "wait after a long time", time.Duration(0), untilWrite(late, start, start, false))
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	status := &v1alpha1.RedriveStatus{
		Total: new(int64(9)), Moved: new(int64(5)), Failed: new(int64(1)), Skipped: map[string]int64{"NotSelected": 2, "CameBack": 1}, Source: "orders.dlq",
	}
	const done = "5 of 9 messages moved, 1 skipped (CameBack), 2 skipped (NotSelected), 1 could not be moved"
	for name, test := range map[string]struct {
		err      error
		dryRun   bool
		status   metav1.ConditionStatus
		reason   string
		progress conditions.Progress
		final    bool
		message  string
	}{
		"done":                    {nil, false, "True", "Completed", conditions.ProgressNone, true, done},
		"counted":                 {nil, true, "True", "DryRun", conditions.ProgressNone, true, strings.Replace(done, "moved", "would be moved", 1)},
		"too many failures":       {fmt.Errorf("%w", transfer.ErrTooManyFailures), false, "False", "TooManyFailures", conditions.Stalled, true, done + `: they stay in queue "orders.dlq"`},
		"an unreadable message":   {transfer.ErrUnreadable, false, "False", "UnreadableMessage", conditions.Stalled, true, "a client of AMQP 1.0"},
		"an unknown return":       {transfer.ErrUnknownReturn, false, "False", "UnknownReturn", conditions.Stalled, true, "unknown message"},
		"no permission":           {fmt.Errorf("%w: no read", brokererr.ErrAccessRefused), false, "False", "PermissionDenied", conditions.Stalled, false, "no read"},
		"the broker is elsewhere": {errors.New("another cluster"), false, "Unknown", "BrokerUnreachable", conditions.Reconciling, false, "another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outcome(status, test.dryRun, test.err)
			topologytest.Equal(t, "status", test.status, got.value.Status)
			topologytest.Equal(t, "reason", test.reason, got.value.Reason)
			topologytest.Equal(t, "progress", test.progress, got.progress)
			topologytest.Equal(t, "final", test.final, got.final)
			topologytest.Equal(t, "tried again", !test.final, got.retry > 0)
			if !strings.Contains(got.value.Message, test.message) {
				t.Errorf("message %q lacks %q", got.value.Message, test.message)
			}
		})
	}
}
