package safedelete

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/vhost"
)

// An open fence signals publishers that the queue accepts messages again, and suspends the limit of a queue that drops its oldest messages.
// A second step restores the limit before the sentinels are taken out.
func TestTheStepsInWhichAFenceIsLifted(t *testing.T) {
	t.Parallel()
	f := fence.Fence{Name: "fence", Queues: []string{"orders"}, Effective: vhost.Arguments{vhost.KeyMaxLength: int64(10)}}
	open, harmless := f.Open().JSON(), f.Harmless().JSON()
	for name, test := range map[string]struct {
		drops, closed bool
		want          []string
	}{
		"over queues that drop messages":       {true, true, []string{open, harmless, "take", "delete"}},
		"over queues that drop none":           {false, true, []string{open, "take", "delete"}},
		"over queues that drop messages, open": {true, false, []string{"take", "delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := &emptyBroker{}
			f := f
			f.Drops = test.drops
			err := New(Settings{}, broker, broker, broker).lift(t.Context(), f, test.closed, func() ([]string, error) {
				broker.changes = append(broker.changes, "take")
				return nil, nil
			})
			if difference := cmp.Diff(test.want, broker.changes); err != nil || difference != "" {
				t.Errorf("%v\n%s", err, difference)
			}
		})
	}
}
