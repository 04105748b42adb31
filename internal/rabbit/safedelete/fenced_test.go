package safedelete_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A fence of another process is observed, and notices name its queues when it is set, changed and removed.
func TestFencesOfOthersAreObserved(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		vh.DeclareQueue("bills", rabbittest.Quorum(nil))
		var listener rabbittest.Listener
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), listener.Hear)
		begun := time.Now().Truncate(time.Second)
		foreign := fence.Fence{
			Name: fence.Name{Owner: "somebody else", Begun: begun}.String("orders"), Pattern: fence.Pattern([]string{"orders"}),
			Queues: []string{"orders"}, Priority: 7,
		}
		put := func(definition vhost.Arguments) {
			vh.SetPolicy(foreign.Name, brokers.Policy{
				Pattern: foreign.Pattern, ApplyTo: "queues", Priority: foreign.Priority, Definition: definition,
			})
		}
		told := snapshot.Notice{Queues: []string{"orders"}}

		put(foreign.Closed())
		rabbittest.Seen(t, connection)
		listener.Awaits(t, told)
		want := []vhost.Fence{{
			Policy: vhost.Policy{
				Name: foreign.Name, Pattern: vhost.ReadPattern(foreign.Pattern), Priority: 7, ApplyTo: "queues", Definition: foreign.Closed(),
			},
			Since: begun, Closed: true,
		}}
		if difference := cmp.Diff(want, fencesSeen(connection)); difference != "" {
			t.Errorf("the closed fence: %s", difference)
		}

		put(foreign.Open())
		rabbittest.Seen(t, connection)
		listener.Awaits(t, told)
		want[0].Closed, want[0].Definition = false, foreign.Open()
		if difference := cmp.Diff(want, fencesSeen(connection)); difference != "" {
			t.Errorf("the open fence: %s", difference)
		}

		put(foreign.Closed())
		rabbittest.Seen(t, connection)
		listener.Awaits(t, told)
		vh.DeletePolicy(foreign.Name)
		rabbittest.Seen(t, connection)
		listener.Awaits(t, told)
		if fences := fencesSeen(connection); len(fences) > 0 {
			t.Errorf("the fence is gone: %+v", fences)
		}
	})
}

// The fence of a running deletion lasts a second, and causes no notice.
func TestFencesOfRunningDeletionsAreNotObserved(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		var listener rabbittest.Listener
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), listener.Hear)
		stood := 0
		connection.Deleter.Crash = func(step string) bool {
			if step != safedelete.StepFenced {
				return true
			}
			if err := connection.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			connection.Observer.View(func(s *snapshot.Snapshot) { stood = len(s.Fences) })
			if fences := fencesSeen(connection); len(fences) > 0 {
				t.Errorf("observed: %+v", fences)
			}
			return true
		}
		if err := deleteNow(t.Context(), connection, "orders"); err != nil {
			t.Fatal(err)
		}
		vh.DeclareQueue("bills", rabbittest.Quorum(nil))
		rabbittest.Seen(t, connection)
		listener.Awaits(t, snapshot.Notice{Queues: []string{"bills"}})
		if stood != 1 {
			t.Errorf("%d fences stood", stood)
		}
	})
}

func fencesSeen(c *rabbittest.Connection) []vhost.Fence {
	observed, _ := c.Observe(vhost.Selection{})
	return observed.Fences
}
