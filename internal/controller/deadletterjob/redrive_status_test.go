package deadletterjob

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestRecordRedrive(t *testing.T) {
	t.Parallel()
	progress := mover.Progress{Moved: 5, Failed: 12, Skipped: map[string]int{"NotSelected": 3}}
	for i := range 12 {
		progress.Failures = append(progress.Failures, mover.Failure{
			ID: fmt.Sprint(i), Reason: mover.FailureRefused, Message: strings.Repeat("x", 2000),
		})
	}
	status := &v1alpha1.RedriveStatus{JobStatus: v1alpha1.JobStatus{Skipped: map[string]int64{"CameBack": 1}}}
	recordRedrive(status, Task{Progress: progress})
	topologytest.Equal(t, "moved", 5, *status.Moved)
	topologytest.Equal(t, "failed", 12, *status.Failed)
	topologytest.Equal(t, "examined", 20, *status.Examined)
	topologytest.Equal(t, "skipped", map[string]int64{"NotSelected": 3}, status.Skipped)
	topologytest.Equal(t, "failures that are listed", 10, len(status.Failures))
	topologytest.Equal(t, "first failure", "0 Refused", status.Failures[0].ID+" "+status.Failures[0].Reason)
	topologytest.Equal(t, "message is cut", true, len(status.Failures[0].Message) <= 1024)
	recordRedrive(status, Task{})
	topologytest.Equal(t, "skipped of none", nil, status.Skipped)
	topologytest.Equal(t, "failures of none", nil, status.Failures)
}

func TestRunningCondition(t *testing.T) {
	t.Parallel()
	w := newRedriveWork(redriveOf("again", 1, nil), nil)
	valueOf := func(state mover.State, detail, to string) conditions.Value {
		return w.RunningCondition(mover.Progress{State: state, Detail: detail}, Move{Queue: QueueKey{Name: "orders.dlq"}, Destination: to})
	}
	for name, test := range map[string]struct {
		state      mover.State
		detail, to string
		want       conditions.Value
	}{
		"the move has not begun":                    {"", "", "orders", conditions.Unknown("Moving", `moving messages from queue "orders.dlq" to queue "orders"`)},
		"the move moves messages to one queue":      {mover.Moving, "", "orders", conditions.Unknown("Moving", `moving messages from queue "orders.dlq" to queue "orders"`)},
		"the move moves messages to several queues": {mover.Moving, "", "", conditions.Unknown("Moving", `moving messages from queue "orders.dlq"`)},
		"the move connects":                         {mover.Connecting, "", "orders", conditions.Unknown("Moving", `moving messages from queue "orders.dlq" to queue "orders"`)},
		"the move cannot connect":                   {mover.Connecting, "refused", "orders", conditions.Unknown("BrokerUnreachable", "cannot connect: refused")},
		"the destination is full":                   {mover.DestinationFull, "queue full", "orders", conditions.Unknown("DestinationFull", "queue full")},
		"the broker blocks publishers":              {mover.Blocked, "low on memory", "orders", conditions.Unknown("Blocked", "low on memory")},
	} {
		topologytest.Equal(t, name, test.want, valueOf(test.state, test.detail, test.to))
	}
	for state, reason := range map[mover.State]string{
		mover.SourceMissing: v1alpha1.ReasonSourceMissing, mover.DestinationMissing: v1alpha1.ReasonDestinationMissing,
		mover.DestinationFull: v1alpha1.ReasonDestinationFull, mover.DestinationBusy: v1alpha1.ReasonDestinationBusy,
		mover.Blocked: v1alpha1.ReasonBlocked, mover.NothingDelivered: v1alpha1.ReasonNothingDelivered,
		mover.NothingConfirmed: v1alpha1.ReasonNothingConfirmed,
	} {
		topologytest.Equal(t, "reason of "+string(state), reason, valueOf(state, "why", "").Reason)
	}
	dry := newRedriveWork(redriveOf("count", 1, func(r *v1alpha1.Redrive) { r.Spec.DryRun = true }), nil)
	topologytest.Equal(t, "message of a dry run", `examining the messages of queue "orders.dlq"`,
		dry.RunningCondition(mover.Progress{}, Move{Queue: QueueKey{Name: "orders.dlq"}, Destination: "orders"}).Message)
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	status := &v1alpha1.RedriveStatus{
		JobStatus: v1alpha1.JobStatus{
			Total: new(int64(8)), Examined: new(int64(8)), Skipped: map[string]int64{"NotSelected": 2, "CameBack": 1}, Source: "orders.dlq",
		},
		Moved: new(int64(5)),
	}
	const done = "5 of 8 messages moved, 1 skipped (CameBack), 2 skipped (NotSelected)"
	for name, test := range map[string]struct {
		err      error
		dryRun   bool
		status   metav1.ConditionStatus
		reason   string
		progress conditions.Progress
		final    bool
		message  string
	}{
		"all messages were moved":            {nil, false, "True", "Completed", conditions.ProgressNone, true, done},
		"a dry run":                          {nil, true, "True", "DryRun", conditions.ProgressNone, true, strings.Replace(done, "moved", "would be moved", 1)},
		"too many failures":                  {fmt.Errorf("%w", mover.ErrTooManyFailures), false, "False", "TooManyFailures", conditions.Stalled, true, done + `. The failed messages remain in queue "orders.dlq"`},
		"an unreadable message":              {mover.ErrUnreadable, false, "False", "UnreadableMessage", conditions.Stalled, true, "a client of AMQP 1.0"},
		"the destination accepts no message": {mover.ErrWaitedTooLong, false, "False", "WaitedTooLong", conditions.Stalled, true, "has a delivery limit"},
		"too many messages to hold":          {mover.ErrTooManyHeld, false, "False", "TooManyToHold", conditions.Stalled, true, "one connection cannot hold all messages that stay in the queue"},
		"too slow":                           {fmt.Errorf("%w: 9", mover.ErrTooSlow), false, "False", "TooSlow", conditions.Stalled, true, "Select by reasons, headers or diedBefore"},
		"an unknown message was returned":    {mover.ErrUnknownReturn, false, "False", "UnknownReturn", conditions.Stalled, true, "unknown message"},
		"no permission":                      {fmt.Errorf("%w: no read", brokererr.ErrAccessRefused), false, "False", "PermissionDenied", conditions.Stalled, false, "no read"},
		"another cluster":                    {errors.New("another cluster"), false, "Unknown", "BrokerUnreachable", conditions.Reconciling, false, "another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := redriveOutcome(status, test.dryRun, nil, unseen{}, test.err)
			topologytest.Equal(t, "status", test.status, got.Ready.Status)
			topologytest.Equal(t, "reason", test.reason, got.Ready.Reason)
			topologytest.Equal(t, "progress", test.progress, got.Progress)
			topologytest.Equal(t, "final", test.final, got.Final)
			topologytest.Equal(t, "retried", !test.final, got.Retry > 0)
			if !strings.Contains(got.Ready.Message, test.message) {
				t.Errorf("message %q lacks %q", got.Ready.Message, test.message)
			}
		})
	}
}

func TestOutcomeOfARedriveThatMovedFewerMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status  v1alpha1.RedriveStatus
		atMost  int64 // zero if the number of moved messages is exact
		limit   int32
		want    string
		message string
		hidden  unseen
	}{
		"its only message failed": {
			v1alpha1.RedriveStatus{Moved: new(int64(0)), Failed: new(int64(1))},
			0, 0, "False Incomplete",
			`0 of 9 messages moved, 1 could not be moved. The failed messages remain in queue "orders.dlq", and status.failures has the reasons. ` +
				`Fix the cause, then create another Redrive`,
			unseen{},
		},
		"another consumer holds messages": {
			v1alpha1.RedriveStatus{Moved: new(int64(5)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(5))}},
			0, 0,
			"False Incomplete", `5 of 9 messages moved, 4 not seen: another consumer of queue "orders.dlq" holds them or has taken them. ` +
				`Stop that consumer, then count the remaining messages`,
			unseen{consumers: 1},
		},
		"another consumer holds messages, and newer messages were moved": {
			v1alpha1.RedriveStatus{Moved: new(int64(9)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(9))}},
			0, 0,
			"False Incomplete", `9 of 9 messages moved, and another consumer of queue "orders.dlq" may hold messages that were not seen. ` +
				`Stop that consumer, then count the remaining messages`,
			unseen{consumers: 1},
		},
		"a message is too large to be read": {
			v1alpha1.RedriveStatus{
				Moved: new(int64(8)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(9)), Skipped: map[string]int64{"TooLarge": 1}},
			},
			0, 0,
			"False Incomplete", "8 of 9 messages moved, 1 skipped (TooLarge). Warren cannot read messages of more than 16777216 bytes: consume " +
				`them from queue "orders.dlq" with another client`,
			unseen{},
		},
		"the queue delays returned messages": {
			v1alpha1.RedriveStatus{Moved: new(int64(9)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(9))}},
			0, 0,
			"False Incomplete", `9 of 9 messages moved, and queue "orders.dlq" may hide returned messages, because it delays their redelivery. ` +
				`Wait for that delay, then count the remaining messages`,
			unseen{delayed: true},
		},
		"after a crash, another consumer may hold messages": {
			v1alpha1.RedriveStatus{Moved: new(int64(7)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(9))}},
			12, 0,
			"False Incomplete", `at least 7 and at most 12 of 9 messages moved, and another consumer of queue "orders.dlq" may hold messages ` +
				`that were not seen. Stop that consumer, then count the remaining messages`,
			unseen{consumers: 1},
		},
		"spec.maxMessages is reached": {
			v1alpha1.RedriveStatus{Moved: new(int64(5)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(5))}},
			0, 5,
			"True Completed", "5 of 9 messages moved",
			unseen{consumers: 1},
		},
		"spec.maxMessages is reached after a crash": {
			v1alpha1.RedriveStatus{Moved: new(int64(3)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(5))}},
			5, 5,
			"False Incomplete", "at least 3 and at most 5 of 9 messages moved: the manager or its connection ended meanwhile, so messages may " +
				"remain although spec.maxMessages is reached. Count the remaining messages, then create another Redrive",
			unseen{},
		},
		"all messages were moved after a crash": {
			v1alpha1.RedriveStatus{Moved: new(int64(7)), JobStatus: v1alpha1.JobStatus{Examined: new(int64(9))}},
			9, 0,
			"True Completed", "at least 7 and at most 9 of 9 messages moved",
			unseen{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, limit := test.status.DeepCopy(), &test.limit
			status.Total, status.Source = new(int64(9)), "orders.dlq"
			if test.atMost > 0 {
				status.AtMost = &test.atMost
			}
			if test.limit == 0 {
				limit = nil
			}
			value := redriveOutcome(status, false, limit, test.hidden, nil).Ready
			topologytest.Equal(t, "condition", test.want, string(value.Status)+" "+value.Reason)
			topologytest.Equal(t, "message", test.message, value.Message)
		})
	}
}

// While another consumer holds messages, moved messages that came back may reach the total. They were counted when they were moved.
func TestMessagesThatCameBackAreExaminedOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		progress mover.Progress
		want     int64
	}{
		"another consumer holds messages":     {mover.Progress{Moved: 60, Skipped: map[string]int{"CameBack": 40}}, 60},
		"all messages were moved, some twice": {mover.Progress{Moved: 125, Skipped: map[string]int{"CameBack": 15}}, 100},
		"messages stay, and others came back": {mover.Progress{Moved: 60, Skipped: map[string]int{"CameBack": 15, "NotSelected": 5}}, 65},
	} {
		status := &v1alpha1.RedriveStatus{JobStatus: v1alpha1.JobStatus{Total: new(int64(100))}}
		recordRedrive(status, Task{Progress: test.progress})
		topologytest.Equal(t, name, test.want, *status.Examined)
	}
}

// In a shared queue, selected messages of unknown origin are also counted separately.
func TestMessagesOfUnknownOriginAreCounted(t *testing.T) {
	t.Parallel()
	status := &v1alpha1.RedriveStatus{JobStatus: v1alpha1.JobStatus{Total: new(int64(20))}}
	recordRedrive(status, Task{Progress: mover.Progress{Moved: 15, Apart: 12, Skipped: map[string]int{"OtherOrigin": 5}}})
	topologytest.Equal(t, "status", 12, *status.UnknownOrigin)
	topologytest.Equal(t, "message", "15 of 20 messages would be moved, 12 of them of unknown origin, 5 skipped (OtherOrigin)",
		redriveOutcome(status, true, nil, unseen{}, nil).Ready.Message)
}

// A dry run counts all matching messages. A Redrive would move no more than spec.maxMessages.
func TestOutcomeOfADryRunWithALimit(t *testing.T) {
	t.Parallel()
	const missing = `: 9 messages match, and spec.maxMessages is 5, 3 not seen: another consumer of queue "orders.dlq" holds them or has taken ` +
		"them. Stop that consumer, then count the remaining messages"
	for name, test := range map[string]struct {
		total, matched int64
		limit          int32
		want           string
	}{
		"more messages match":                      {9, 9, 5, "DryRun 5 of 9 messages would be moved: 9 messages match, and spec.maxMessages is 5"},
		"as many messages match":                   {9, 9, 9, "DryRun 9 of 9 messages would be moved"},
		"fewer messages match":                     {9, 9, 10, "DryRun 9 of 9 messages would be moved"},
		"more messages match, and some are unseen": {12, 9, 5, "Incomplete 5 of 12 messages would be moved" + missing},
	} {
		status := &v1alpha1.RedriveStatus{
			JobStatus: v1alpha1.JobStatus{Total: &test.total, Examined: &test.matched, Source: "orders.dlq"}, Moved: new(test.matched),
		}
		ready := redriveOutcome(status, true, &test.limit, unseen{}, nil).Ready
		topologytest.Equal(t, name, test.want, ready.Reason+" "+ready.Message)
		topologytest.Equal(t, "moved", min(test.matched, int64(test.limit)), *status.Moved)
	}
}

// The message of a job contains the error of its expression, without values of a message.
func TestWhyAnExpressionFailed(t *testing.T) {
	t.Parallel()
	filter, wrong := newPurgeFilter(purgeOf(t, `{consumerQueueRef: {name: orders}, expectedAtMost: 1, selector: {expression: body.order.total > 5}}`), Move{})
	topologytest.Equal(t, "is valid", true, wrong == nil)
	topologytest.Equal(t, "skips", "NotEvaluated", filter.Skips(&amqp.Delivery{Body: []byte(`{"order": {}}`)}, 13))
	status := &v1alpha1.JobStatus{Total: new(int64(3))}
	recordProgress(status, Task{config: mover.Config{Filter: filter}, Progress: mover.Progress{Skipped: map[string]int{"NotEvaluated": 3}}})
	topologytest.Equal(t, "texts", []string{"3 skipped (NotEvaluated: no such key: total)"}, countTexts(status))
}
