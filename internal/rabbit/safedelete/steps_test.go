package safedelete

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// A search takes sentinels out from behind other messages, and leaves those messages in the queue.
func TestSentinelsBehindMessages(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("q", quorum(nil))
		deleter, _ := deleterAt(t, vh)
		cluster, name := deleter.observer.State().Cluster.Key(), "warren-fence-1-ABCDEF::q"
		publish := func(numbers ...int) {
			err := deleter.sentinels.alone(t.Context(), cluster, len(numbers), func(p *publisher) error {
				_, err := p.publish("q", name, numbers...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		vh.Publish("", "q", "1", "2", "3")
		publish(1)
		vh.Publish("", "q", "4", "5")
		publish(2)
		inside := &sentinelCounts{of: map[string]int{"q": 2}}
		lost := &search{Deleter: deleter, fence: fence.Fence{Name: name}, cluster: cluster, missing: inside.count}
		if _, err := lost.look(t.Context(), "q", []string{"q"}, false); err != nil || inside.count("q", 0) != 0 {
			t.Errorf("%d missing: %v", inside.count("q", 0), err)
		}
		NewWithT(t).Eventually(vh.Ready).WithArguments("q").WithTimeout(within).Should(Equal(5))
	})
}

// A recreation does not wait until a dead-letter queue is nearly empty. A deletion does.
func TestSentinelsThatMayHaveExpiredBehindManyDeadLetters(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	expiring := quorum(vhost.Arguments{
		vhost.ArgMessageTTL: int64(60_000), vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "dlq",
	})
	vh.DeclareQueue("q", expiring)
	vh.DeclareQueue("dlq", quorum(nil))
	vh.Publish("", "dlq", make([]string, holdLimit+1)...)
	deleter, _ := deleterAt(t, vh)
	deleter.observer.Write(snapshot.Write{Apply: func(known *snapshot.Snapshot) bool {
		known.PutQueue("q", vhost.Queue{Arguments: expiring})
		return known.PutQueue("dlq", vhost.Queue{Arguments: quorum(nil)})
	}})
	for mayForget, want := range map[bool]error{true: nil, false: brokererr.ErrUnproven} {
		name := fmt.Sprint("warren-recreate-1-ABCDEF::q", mayForget)
		deleter.deletions.search(name).without["q"] = time.Now().Add(-maxArrival) // no sentinel is on its way any more
		inside := &sentinelCounts{of: map[string]int{"q": Sentinels}}
		lost := &search{
			Deleter: deleter, fence: fence.Fence{Name: name, Queues: []string{"q"}}, cluster: deleter.observer.State().Cluster.Key(),
			missing: inside.count, gone: func(string) {}, mayForget: mayForget,
		}
		if _, err := lost.run(t.Context()); !errors.Is(err, want) {
			t.Errorf("may forget %v: got %v, want %v", mayForget, err, want)
		}
	}
}

// A deletion that was stopped for longer than its budget deletes nothing, because another process may have taken its fence down.
func TestADeletionThatWasStoppedForTooLong(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("q", quorum(nil))
		deleter, api := deleterAt(t, vh)
		g := &group{ctx: t.Context(), cluster: deleter.observer.State().Cluster.Key(), queues: []string{"q"}}
		d := newBatch(deleter, []*group{g})
		planned, err := preflight{d}.plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.fences, d.deadline = planned, time.Now().Add(budget)
		if err := api.PutPolicy(t.Context(), planned[0].Name, planned[0].Pattern, planned[0].Priority, planned[0].Closed()); err != nil {
			t.Fatal(err)
		}
		if err := (proof{d}).proveAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.deadline = time.Now().Add(-time.Second)
		if err := (removal{d}).delete(t.Context()); err != nil {
			t.Error(err)
		}
		if err := g.err; !errors.Is(err, brokererr.ErrUnproven) || !strings.Contains(err.Error(), "missed its deadline") {
			t.Errorf("it ended with %v", err)
		}
		NewWithT(t).Eventually(vh.Ready).WithArguments("q").WithTimeout(within).Should(Equal(Sentinels))
	})
}
