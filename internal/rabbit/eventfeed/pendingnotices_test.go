package eventfeed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

func TestPendingNotices(t *testing.T) {
	t.Parallel()
	unbound := func(source, destination string, toExchange bool) Change {
		return Change{
			Kind: Deleted, ID: vhost.ID{Kind: vhost.KindBinding, Source: source, Destination: destination},
			Binding: vhost.Binding{Source: source, Destination: destination, ToExchange: toExchange},
		}
	}
	gone := func(id vhost.ID) Change { return Change{Kind: Deleted, ID: id} }
	made := Change{Kind: Created, ID: vhost.QueueID("orders")}
	for name, test := range map[string]struct {
		changes []Change
		told    bool
	}{
		"a binding":                            {[]Change{unbound("in", "orders", false)}, false},
		"a binding, and its queue":             {[]Change{unbound("in", "orders", false), gone(vhost.QueueID("orders"))}, true},
		"a binding, and its source":            {[]Change{unbound("in", "orders", false), gone(vhost.ExchangeID("in"))}, true},
		"a binding, and another queue":         {[]Change{unbound("in", "orders", false), gone(vhost.QueueID("invoices"))}, false},
		"a binding, and its queue is made":     {[]Change{unbound("in", "orders", false), made}, false},
		"two bindings, and the queue of one":   {[]Change{unbound("in", "a", false), unbound("in", "b", false), gone(vhost.QueueID("a"))}, false},
		"two bindings, and both queues":        {[]Change{unbound("in", "a", false), unbound("in", "b", false), gone(vhost.QueueID("b")), gone(vhost.QueueID("a"))}, true},
		"a binding of exchanges":               {[]Change{unbound("in", "out", true)}, false},
		"a binding of exchanges, and one":      {[]Change{unbound("in", "out", true), gone(vhost.ExchangeID("out"))}, true},
		"a binding of exchanges, and a queue":  {[]Change{unbound("in", "out", true), gone(vhost.QueueID("out"))}, false},
		"a queue without bindings":             {[]Change{gone(vhost.QueueID("orders"))}, true},
		"a binding that the snapshot has lost": {[]Change{gone(vhost.QueueID("orders")), unbound("", "", false)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, overdue, want := PendingNotices{}, make(chan snapshot.Notice, 1), snapshot.Notice{}
			for _, change := range test.changes {
				concerned := snapshot.Notice{Queues: []string{change.ID.Name + change.ID.Destination}}
				if change.ID.Destination+change.ID.Name == "" {
					concerned = snapshot.Notice{}
				}
				want = snapshot.Merge([]snapshot.Notice{want, concerned})
				u.Add(change, concerned)
			}
			got := u.Take(200*time.Millisecond, func() { overdue <- u.TakeAll() })
			if test.told == got.Empty() {
				t.Fatalf("sent immediately: %v", got)
			}
			if !test.told {
				select {
				case got = <-overdue:
				case <-time.After(deadline.For(5 * time.Second)):
					t.Fatal("told never")
				}
			}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("notice (-want +got):\n%s", difference)
			}
			if again := u.TakeAll(); !again.Empty() {
				t.Errorf("told again: %v", again)
			}
		})
	}
}
