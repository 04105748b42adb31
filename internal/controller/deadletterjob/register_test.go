package deadletterjob

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func queueIn(namespace string) QueueKey {
	return QueueKey{
		Connection: client.ObjectKey{Namespace: namespace, Name: "default"},
		Location:   ownership.Location{Cluster: vhost.Cluster{Name: "a"}, VHost: "/"}, Name: "orders.dlq",
	}
}

func user(kind Kind, name string) Key {
	return Key{kind, client.ObjectKey{Namespace: "shop", Name: name}}
}

// A user asks for whom it waits while the user in front of it leaves.
func TestWaitsWhileAnotherLeaves(t *testing.T) {
	t.Parallel()
	register := &Register{}
	for range 1000 {
		first := register.Join(user("Redrive", "first"), queueIn("shop"), func() {})
		second := register.Join(user("Redrive", "second"), queueIn("shop"), func() {})
		left := make(chan struct{})
		go func() {
			defer close(left)
			first.Leave()
		}()
		for waits := true; waits; {
			_, waits = second.Waits()
		}
		<-left
		second.Leave()
	}
}

// Jobs and requests of the dead-letter API have the turn one at a time, in the order of their arrival.
func TestUsersOfAQueueTakeTurns(t *testing.T) {
	t.Parallel()
	register := &Register{}
	var granted []string
	join := func(kind Kind, name string) *Entry {
		return register.Join(user(kind, name), queueIn("shop"), func() { granted = append(granted, name) })
	}
	export, job, gone, last := join("", "export"), join("Redrive", "job"), join("Purge", "gone"), join("", "last")
	_, waits := export.Waits()
	topologytest.Equal(t, "the first waits", false, waits)
	blockedBy, _ := job.Waits()
	topologytest.Equal(t, "the second waits for", user("", "export"), blockedBy)
	gone.Leave()
	topologytest.Equal(t, "granted while the first has the turn", []string(nil), granted)
	export.Leave()
	export.Leave()
	topologytest.Equal(t, "granted", []string{"job"}, granted)
	blockedBy, _ = last.Waits()
	topologytest.Equal(t, "the last waits for", user("Redrive", "job"), blockedBy)
	job.Leave()
	topologytest.Equal(t, "granted at the end", []string{"job", "last"}, granted)
	last.Leave()
	topologytest.Equal(t, "entries", 0, len(register.entries))
}

// A browse need not see all messages, so it does not wait for a job that admits browses. The next job must see all messages,
// so it waits for both. Browses in a loop do not stop the job.
func TestABrowseBesideAJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		register := &Register{}
		var granted []string
		grant := func(name string) func() { return func() { granted = append(granted, name) } }
		job := register.Join(user("Redrive", "job"), queueIn("shop"), grant("job"))
		early := register.Browse(user("", "early"), queueIn("shop"), grant("early"))
		stranger := register.Browse(Key{"", client.ObjectKey{Namespace: "other", Name: "stranger"}}, queueIn("shop"), grant("stranger"))
		export := register.Join(user("", "export"), queueIn("shop"), grant("export"))
		topologytest.Equal(t, "granted before the job admits browses", []string(nil), granted)
		job.AdmitBrowses(func() int { return 7 })
		topologytest.Equal(t, "granted when the job admits browses", []string{"early"}, granted)
		held, beside := early.HeldByJob()
		topologytest.Equal(t, "held by the job", 7, held)
		topologytest.Equal(t, "beside a job", true, beside)
		late := register.Browse(user("", "late"), queueIn("shop"), grant("late"))
		_, waits := late.Waits()
		topologytest.Equal(t, "a second browse waits", true, waits)
		stranger.Leave()
		early.Leave()
		for range 2 {
			topologytest.Equal(t, "the job is browsed after the first browse", false, job.IsBrowsed())
			blockedBy, _ := late.Waits()
			topologytest.Equal(t, "the second browse waits for", user("Redrive", "job"), blockedBy)
			time.Sleep(betweenBrowses / 2)
			early.Leave() // again, which changes nothing
		}
		synctest.Wait()
		topologytest.Equal(t, "granted when the job has taken messages", []string{"early", "late"}, granted)
		topologytest.Equal(t, "the second browse is beside the job", true, job.IsBrowsed())
		job.Leave()
		topologytest.Equal(t, "granted while a browse remains", []string{"early", "late"}, granted)
		blockedBy, _ := export.Waits()
		topologytest.Equal(t, "the export waits for", user("", "late"), blockedBy)
		after := register.Browse(user("", "after"), queueIn("shop"), grant("after"))
		late.Leave()
		topologytest.Equal(t, "granted when no browse remains", []string{"early", "late", "export"}, granted)
		_, beside = export.HeldByJob()
		topologytest.Equal(t, "the export is beside a job", false, beside)
		export.Leave()
		topologytest.Equal(t, "granted at last", []string{"early", "late", "export", "after"}, granted)
		_, beside = after.HeldByJob()
		topologytest.Equal(t, "the last browse is beside a job", false, beside)
	})
}

// A user that has the turn again, such as an export, learns whether a job may have removed messages of its queue since.
func TestRemovalsBetweenTwoTurns(t *testing.T) {
	t.Parallel()
	own, other, otherConnection := queueIn("shop"), queueIn("shop"), queueIn("shop")
	other.Name, otherConnection.Connection.Name = "bills.dlq", "other"
	for name, test := range map[string]struct {
		between func(remove, count func(QueueKey))
		want    bool
	}{
		"nothing":                                 {func(_, _ func(QueueKey)) {}, false},
		"a job that only counts":                  {func(_, count func(QueueKey)) { count(own) }, false},
		"a job that removes some":                 {func(remove, _ func(QueueKey)) { remove(own) }, true},
		"a job before a count":                    {func(remove, count func(QueueKey)) { remove(own); count(own) }, true},
		"through another connection to the queue": {func(remove, _ func(QueueKey)) { remove(otherConnection) }, true},
		"a job at another queue":                  {func(remove, _ func(QueueKey)) { remove(other) }, false},
		"many jobs at another queue": {func(remove, _ func(QueueKey)) {
			for range 2 * maxRemovals {
				remove(other)
			}
		}, false},
		"jobs at more queues than are recorded": {func(remove, _ func(QueueKey)) {
			for i := range maxRemovals + 1 {
				another := other
				another.Name = strconv.Itoa(i)
				remove(another)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			register := &Register{}
			turn := func(queue QueueKey, do func(*Entry)) {
				entry := register.Join(user("", "orders"), queue, func() {})
				do(entry)
				entry.Leave()
			}
			remove := func(queue QueueKey) { turn(queue, (*Entry).RecordRemoval) }
			remove(own)
			remove(other)
			var turns, last int
			turn(own, func(e *Entry) { turns, last = e.Removals() })
			topologytest.Equal(t, "removed before the first turn", false, last > turns)
			test.between(remove, func(queue QueueKey) { turn(queue, func(*Entry) {}) })
			turn(own, func(e *Entry) { _, last = e.Removals() })
			topologytest.Equal(t, "may have removed", test.want, last > turns)
			if kept := len(register.removals); kept > maxRemovals {
				t.Errorf("has %d queues", kept)
			}
		})
	}
}

func TestUsersAreNamedInTheirNamespaceOnly(t *testing.T) {
	t.Parallel()
	for want, user := range map[string]Key{
		`a request of the dead-letter API browses queue "q"`:         user("", "orders"),
		`Redrive "a" takes messages from queue "q"`:                  user("Redrive", "a"),
		`a Purge in another namespace takes messages from queue "q"`: {"Purge", client.ObjectKey{Namespace: "other", Name: "a"}},
	} {
		topologytest.Equal(t, "words", want, user.Uses("q", "shop"))
	}
}

// Two connections may name the same cluster differently. A server of another tenant can claim to be any cluster, but not to listen
// at any address; with a ServerName, a gateway can lead an address to several brokers.
func TestTwoConnectionsToOneQueue(t *testing.T) {
	t.Parallel()
	strong := vhost.Cluster{ID: "x", Name: "a", Endpoint: "mq:5672"}
	const mq, evil = "mq:5672", "evil:5672"
	for name, test := range map[string]struct {
		namespace      string
		cluster        vhost.Cluster
		address, other string // at which AMQP opened the vhost of each connection; empty with a ServerName
		want           bool
	}{
		"one namespace at two addresses":      {"shop", vhost.Cluster{Name: "a", Endpoint: "rabbitmq.shop.svc:5672"}, mq, "rabbitmq.shop.svc:5672", true},
		"one namespace, with ServerName":      {"shop", strong, "", "", true},
		"another cluster of that name":        {"shop", vhost.Cluster{ID: "y", Name: "a"}, mq, mq, false},
		"another namespace claims it":         {"till", vhost.Cluster{ID: "x", Name: "a", Endpoint: evil}, mq, evil, false},
		"another namespace at its address":    {"till", strong, mq, mq, true},
		"the same, with ServerName":           {"till", strong, mq, "", false},
		"the same, with ServerName in both":   {"till", strong, "", "", false},
		"another cluster at the same address": {"till", vhost.Cluster{ID: "y", Name: "a", Endpoint: mq}, mq, mq, false},
	} {
		one, other := queueIn("shop"), queueIn(test.namespace)
		one.Location.Cluster, other.Location.Cluster = strong, test.cluster
		one.Address, other.Address = test.address, test.other
		topologytest.Equal(t, name, test.want, one.mayBe(other))
		topologytest.Equal(t, name+", the other way round", test.want, other.mayBe(one))
	}
}

func TestTheTurnHasTheProvenAddress(t *testing.T) {
	t.Parallel()
	cq := controllertest.InSync(t, `{}`)
	w := newWorld(t, cq, Redrive, &v1alpha1.Redrive{})
	for _, address := range []string{"memory:5672", ""} {
		w.Broker.SetHealth(func(h *rabbit.Health) { h.Place.Address = address })
		found, blocker, err := w.Reconciler.Finder.Find(t.Context(), client.ObjectKeyFromObject(cq))
		if err != nil || blocker != nil {
			t.Fatal(err, blocker)
		}
		topologytest.Equal(t, "address", address, found.Key().Address)
	}
}
