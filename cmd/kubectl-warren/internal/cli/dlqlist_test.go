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
