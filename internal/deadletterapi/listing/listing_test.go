package listing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

// A dead-letter queue has the name that the spec gives it, and the number of messages that the status tells, if the operator has counted.
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
			TypeMeta: kind("DeadLetterQueue"), Queue: "orders.dlq", Messages: new(int64(7)), AsOf: &at,
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "u", Labels: map[string]string{"team": "a"}},
		},
		{TypeMeta: kind("DeadLetterQueue"), Queue: "bills.dlq", ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bills"}},
	}}
	got := listing.List([]messaging.ConsumerQueue{counted, uncounted, invalid})
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("list (-want +got):\n%s", difference)
	}
}
