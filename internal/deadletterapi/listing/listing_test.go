package listing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

// A dead-letter queue has the name from the spec, and the number of messages from the status, if there is one.
func TestList(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 11, 24, 4, 0, 0, 0, time.UTC))
	counted := messaging.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "orders", UID: "u", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "not told"},
	}}
	counted.Status.Messages = &messaging.MessageCounts{DeadLettered: new(int64(7)), AsOf: at}
	uncounted := messaging.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bills"}}
	invalid := messaging.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "wrong"}}
	invalid.Spec.Retry = &messaging.RetrySpec{DelayTiers: []messaging.DelayTier{{Delay: "soon"}}}

	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{Kind: name, APIVersion: "deadletters.messaging.warren.dev/v1alpha1"}
	}
	want := &v1alpha1.DeadLetterQueueList{TypeMeta: kind("DeadLetterQueueList"), Items: []v1alpha1.DeadLetterQueue{
		{
			TypeMeta: kind("DeadLetterQueue"), Queue: "orders.dlq", Messages: new(int64(7)), AsOf: &at, UnderWay: new(int64(5)),
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "u", Labels: map[string]string{"team": "a"}},
		},
		{TypeMeta: kind("DeadLetterQueue"), Queue: "bills.dlq", UnderWay: new(int64(0)), ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bills"}},
	}}
	redrive := messaging.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r"}}
	redrive.Spec.ConsumerQueueRef.Name = "orders"
	redrive.Status.JobStatus = running(7, 2)
	elsewhere := redrive
	elsewhere.Namespace = "till"
	got := listing.List([]messaging.ConsumerQueue{counted, uncounted, invalid}, []messaging.Redrive{redrive, elsewhere}, nil)
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("list (-want +got):\n%s", difference)
	}
}

// The values of labels are short, but nothing limits their number.
func TestManyLabelsAreLeftOut(t *testing.T) {
	t.Parallel()
	cq := &messaging.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{
		Name: "orders", Labels: map[string]string{"team": strings.Repeat("x", 2044)},
	}}
	queue, _ := listing.QueueOf(cq)
	if len(queue.Labels) != 1 {
		t.Error("labels of 2 KiB are left out")
	}
	cq.Labels["a"] = ""
	if queue, _ = listing.QueueOf(cq); queue.Labels != nil {
		t.Error("labels of more than 2 KiB are not left out")
	}
}

// running is the status of a job that removes messages.
func running(total, examined int64) messaging.JobStatus {
	return messaging.JobStatus{
		Total: &total, Examined: &examined,
		Conditions: []metav1.Condition{{Type: messaging.ConditionReady, Status: metav1.ConditionUnknown, Reason: messaging.ReasonMoving}},
	}
}

func TestUnderWayByRedrive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*messaging.Redrive)
		want   int64
	}{
		"it passes messages over": {func(*messaging.Redrive) {}, 1000},
		"a limit above the total": {func(r *messaging.Redrive) { r.Spec.MaxMessages = new(int32(5000)) }, 1000},
		"a limit below the total": {func(r *messaging.Redrive) { r.Spec.MaxMessages = new(int32(60)) }, 45},
		"it has not counted yet":  {func(r *messaging.Redrive) { r.Status.Total = nil }, 0},
		"it has no condition":     {func(r *messaging.Redrive) { r.Status.Conditions = nil }, 0},
		"it waits for its turn":   {func(r *messaging.Redrive) { r.Status.Conditions[0].Reason = messaging.ReasonQueued }, 0},
		"it is suspended":         {func(r *messaging.Redrive) { r.Spec.Suspend = true }, 0},
		"it only counts":          {func(r *messaging.Redrive) { r.Spec.DryRun = true }, 0},
		"it has ended":            {func(r *messaging.Redrive) { r.Status.CompletionTime = new(metav1.Now()) }, 0},
		"a user has to fix it": {func(r *messaging.Redrive) {
			r.Status.Conditions[0].Type = messaging.ConditionStalled
			r.Status.Conditions[0].Status = metav1.ConditionTrue
		}, 0},
		"it moved some twice": {func(r *messaging.Redrive) { r.Status.Examined = new(int64(1300)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redrive := &messaging.Redrive{Status: messaging.RedriveStatus{JobStatus: running(1264, 264), Moved: new(int64(15))}}
			test.change(redrive)
			if got := listing.UnderWayByRedrive(redrive); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestUnderWayByPurge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status messaging.PurgeStatus
		want   int64
	}{
		"it counts":  {messaging.PurgeStatus{JobStatus: running(20, 8)}, 12},
		"it deletes": {messaging.PurgeStatus{JobStatus: running(20, 20), Matched: new(int64(9)), Deleted: new(int64(5))}, 4},
		"not begun":  {messaging.PurgeStatus{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := listing.UnderWayByPurge(&messaging.Purge{Status: test.status}); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
