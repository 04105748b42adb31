package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

func TestFullestQueuesFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		names    []string
		nonEmpty bool
		want     []string
	}{
		"all":              {want: []string{"full", "orders", "bills", "empty", "unknown"}},
		"with messages":    {nonEmpty: true, want: []string{"full", "orders", "bills"}},
		"some":             {names: []string{"empty", "bills"}, want: []string{"bills", "empty"}},
		"some, but filled": {names: []string{"empty", "bills"}, nonEmpty: true, want: []string{"bills"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var queues []v1alpha1.DeadLetterQueue
			for name, count := range map[string]*int64{
				"a/unknown": nil, "a/empty": new(int64(0)), "b/bills": new(int64(3)), "a/orders": new(int64(3)), "a/full": new(int64(9)),
			} {
				queues = append(queues, v1alpha1.DeadLetterQueue{
					ObjectMeta: metav1.ObjectMeta{Namespace: name[:1], Name: name[2:]}, Messages: count,
				})
			}
			var got []string
			for _, queue := range fullest(queues, test.names, test.nonEmpty) {
				got = append(got, queue.Name)
			}
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Errorf("queues (-want +got):\n%s", difference)
			}
		})
	}
}

// Each change of a number prints a row. Elapsed time alone does not.
func TestChangedQueues(t *testing.T) {
	t.Parallel()
	queue := func(name string, messages, underWay *int64) v1alpha1.DeadLetterQueue {
		return v1alpha1.DeadLetterQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Messages: messages, UnderWay: underWay, AsOf: new(metav1.Now()),
		}
	}
	before := []v1alpha1.DeadLetterQueue{
		queue("same", new(int64(3)), new(int64(0))), queue("more", new(int64(3)), nil), queue("counted", nil, nil),
		queue("moving", new(int64(3)), new(int64(0))), queue("gone", new(int64(3)), nil),
	}
	now := []v1alpha1.DeadLetterQueue{
		queue("same", new(int64(3)), new(int64(0))), queue("more", new(int64(4)), nil), queue("counted", new(int64(0)), nil),
		queue("moving", new(int64(3)), new(int64(2))), queue("new", nil, nil),
	}
	var got []string
	for _, each := range changed(before, now) {
		got = append(got, each.Name)
	}
	if difference := cmp.Diff([]string{"more", "counted", "moving", "new"}, got); difference != "" {
		t.Errorf("queues (-want +got):\n%s", difference)
	}
}
