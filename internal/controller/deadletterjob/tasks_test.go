package deadletterjob

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func key(name string) Key { return Key{Redrive, client.ObjectKey{Namespace: "shop", Name: name}} }

// newTasks returns Tasks that enqueue jobs of both kinds through a function.
func newTasks(t *testing.T, enqueue func(client.ObjectKey)) *Tasks {
	t.Helper()
	tasks := NewTasks(t.Context(), &Register{})
	for _, kind := range []Kind{Redrive, Purge} {
		tasks.OnEnqueue(kind, enqueue)
	}
	return tasks
}

// silent returns the config of a move whose reports are dropped.
func silent(moved int) mover.Config {
	return mover.Config{Moved: moved, Report: func(mover.Progress) {}}
}

func queueAt(connection, queue string) QueueKey {
	return QueueKey{Connection: key(connection).ObjectKey, Location: ownership.Location{Cluster: vhost.Cluster{Name: "a"}, VHost: "/"}, Name: queue}
}

func TestOneRedriveHasTheTurnAtAQueue(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := newTasks(t, enqueued.Enqueue)
	_, granted := r.acquire(key("first"), "1", queueAt("default", "orders.dlq"))
	topologytest.Equal(t, "first has the turn", true, granted)
	wait, granted := r.acquire(key("second"), "2", queueAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn", false, granted)
	topologytest.Equal(t, "blocked by", key("first"), wait.blockedBy)
	_, granted = r.acquire(key("third"), "3", queueAt("default", "invoices.dlq"))
	topologytest.Equal(t, "third has the turn at another queue", true, granted)
	r.drop(key("first"), "1")
	topologytest.Equal(t, "enqueued", key("second").ObjectKey, <-enqueued)
	_, granted = r.acquire(key("second"), "2", queueAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn after the first", true, granted)
	r.drop(key("unknown"), "4")
	topologytest.Equal(t, "enqueued by an unknown job", 0, len(enqueued))
}

// If the status cannot be written after acquire, the job acquires its turn again.
func TestAcquireGrantsATurnAgainUntilTheMoveBegins(t *testing.T) {
	t.Parallel()
	r := newTasks(t, controllertest.NewEnqueued().Enqueue)
	for range 2 {
		_, granted := r.acquire(key("orders"), "1", queueAt("default", "orders.dlq"))
		topologytest.Equal(t, "granted", true, granted)
	}
	r.begin(key("orders"), Move{Broker: &brokers.Broker{Mover: brokerstest.NewMover(nil)}}, silent(0), mover.Settings{}, time.Now())
	wait, granted := r.acquire(key("orders"), "2", queueAt("default", "invoices.dlq"))
	topologytest.Equal(t, "granted to another object of the name while a move runs", false, granted)
	topologytest.Equal(t, "text", "a deleted Redrive of the same name has not ended yet. This Redrive begins when the deleted one ends",
		wait.textFor(key("orders"), "invoices.dlq"))
}

// Jobs may wait for days for their destination. They block neither other jobs nor other namespaces.
func TestSlotsOfANamespace(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := newTasks(t, enqueued.Enqueue)
	broker := brokerstest.NewMover(nil)
	begun := map[string]mover.Config{}
	begin := func(name string) (granted bool) {
		wait, granted := r.acquire(key(name), "1", queueAt("default", name))
		topologytest.Equal(t, "blocked by at the queue", Key{}, wait.blockedBy)
		if granted {
			r.begin(key(name), Move{Broker: &brokers.Broker{Mover: broker}}, silent(0), mover.Settings{}, time.Now())
			begun[name] = <-broker.Begun
		}
		return granted
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		topologytest.Equal(t, name+" begins", true, begin(name))
	}
	topologytest.Equal(t, "the fifth begins", false, begin("e"))
	stranger := Key{Redrive, client.ObjectKey{Namespace: "other", Name: "f"}}
	_, granted := r.acquire(stranger, "1", queueAt("default", "f"))
	topologytest.Equal(t, "a job of another namespace begins", true, granted)

	for i, name := range []string{"a", "b", "c", "d"} {
		begun[name].Report(mover.Progress{State: mover.DestinationFull})
		topologytest.Equal(t, "enqueued for the state", key(name).ObjectKey, <-enqueued)
		if i == 0 {
			topologytest.Equal(t, "enqueued for the slot", key("e").ObjectKey, <-enqueued)
		}
	}
	for _, name := range []string{"e", "g", "h", "i"} {
		topologytest.Equal(t, name+" begins while others wait", true, begin(name))
	}
	for _, name := range []string{"e", "g", "h", "i"} {
		begun[name].Report(mover.Progress{State: mover.Blocked})
		topologytest.Equal(t, "enqueued for the state", key(name).ObjectKey, <-enqueued)
	}
	topologytest.Equal(t, "the ninth begins while all others wait", false, begin("j"))
	r.drop(stranger, "1")
	topologytest.Equal(t, "enqueued", key("j").ObjectKey, <-enqueued)
}

// Two namespaces can use only half of all slots for jobs that wait for days. Each other namespace then has one.
func TestSlotsAreReservedForOtherNamespaces(t *testing.T) {
	t.Parallel()
	r := newTasks(t, func(client.ObjectKey) {})
	broker := brokerstest.NewMover(nil)
	// begin starts jobs of a namespace that wait for their destination, until one is refused, and returns how many have begun.
	begin := func(namespace string) (begun int) {
		for ; ; begun++ {
			job := Key{Redrive, client.ObjectKey{Namespace: namespace, Name: fmt.Sprint(begun)}}
			if _, granted := r.acquire(job, "1", queueAt("default", namespace+job.Name)); !granted {
				return begun
			}
			r.begin(job, Move{Broker: &brokers.Broker{Mover: broker}}, silent(0), mover.Settings{}, time.Now())
			(<-broker.Begun).Report(mover.Progress{State: mover.DestinationFull})
		}
	}
	got := map[string]int{}
	for _, namespace := range []string{"a", "b", "c", "d", "e"} {
		got[namespace] = begin(namespace)
	}
	topologytest.Equal(t, "jobs begun", map[string]int{"a": 8, "b": 8, "c": 1, "d": 1, "e": 1}, got)
}

func TestAMoveEnqueuesItsJobForStatesAndAtItsEnd(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := newTasks(t, enqueued.Enqueue)
	broker := brokerstest.NewMover(nil)
	r.acquire(key("orders"), "1", queueAt("default", "orders.dlq"))
	topologytest.Equal(t, "begun", 0, len(r.begun(Redrive)))
	r.begin(key("orders"), Move{Broker: &brokers.Broker{Mover: broker}}, silent(2), mover.Settings{Rate: 5}, time.Now())
	config := <-broker.Begun
	topologytest.Equal(t, "moved at first", 2, r.get(key("orders"), "1").Progress.Moved)
	topologytest.Equal(t, "rate", 5, config.Settings().Rate)
	r.change(key("orders"), mover.Settings{Rate: 7})
	topologytest.Equal(t, "another rate", 7, config.Settings().Rate)

	config.Report(mover.Progress{State: mover.Moving, Moved: 2})
	topologytest.Equal(t, "enqueued for a state", key("orders").ObjectKey, <-enqueued)
	config.Report(mover.Progress{State: mover.Moving, Moved: 3})
	topologytest.Equal(t, "enqueued for a number", 0, len(enqueued))
	broker.End <- mover.ErrTooManyFailures
	topologytest.Equal(t, "enqueued at the end", key("orders").ObjectKey, <-enqueued)
	ended := r.get(key("orders"), "1")
	topologytest.Equal(t, "ended", true, ended.Ended)
	topologytest.Equal(t, "stopped", false, ended.Stopped)
	topologytest.Equal(t, "error", mover.ErrTooManyFailures.Error(), ended.Err.Error())
	topologytest.Equal(t, "another object of the name has a task", false, r.get(key("orders"), "2").Ended)
}

// A stopped move keeps its turn until it has settled what it published.
func TestAMoveOfADeletedRedriveKeepsItsTurnUntilItEnds(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := newTasks(t, enqueued.Enqueue)
	broker := brokerstest.NewMover(nil)
	r.acquire(key("orders"), "1", queueAt("default", "orders.dlq"))
	r.begin(key("orders"), Move{Broker: &brokers.Broker{Mover: broker}}, silent(0), mover.Settings{}, time.Now())
	<-broker.Begun
	r.forget(key("orders"), "1")
	topologytest.Equal(t, "stopped while the Redrive exists", false, r.get(key("orders"), "1").Stopped)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "stopped", true, r.get(key("orders"), "1").Stopped)
	r.drop(key("orders"), "another object of the name")
	_, granted := r.acquire(key("next"), "2", queueAt("default", "orders.dlq"))
	topologytest.Equal(t, "the next job has the turn", false, granted)
	topologytest.Equal(t, "enqueued at the end", key("orders").ObjectKey, <-enqueued)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "the next job is enqueued", key("next").ObjectKey, <-enqueued)
	topologytest.Equal(t, "tasks", 0, len(r.begun(Redrive)))
}

// An export through the dead-letter API hides its messages from a job, so the job waits. Later exports wait behind the job.
func TestAJobWaitsForAnExport(t *testing.T) {
	t.Parallel()
	enqueued := controllertest.NewEnqueued()
	r := newTasks(t, enqueued.Enqueue)
	exporter := Key{ObjectKey: key("orders").ObjectKey}
	export := r.users.Join(exporter, queueAt("default", "orders.dlq"), func() {})
	wait, granted := r.acquire(key("job"), "1", queueAt("other", "orders.dlq"))
	topologytest.Equal(t, "granted during the export", false, granted)
	topologytest.Equal(t, "blocked by", exporter, wait.blockedBy)
	later := r.users.Join(exporter, queueAt("default", "orders.dlq"), func() {})
	export.Leave()
	topologytest.Equal(t, "enqueued", key("job").ObjectKey, <-enqueued)
	_, granted = r.acquire(key("job"), "1", queueAt("other", "orders.dlq"))
	topologytest.Equal(t, "granted after the export", true, granted)
	_, waits := later.Waits()
	topologytest.Equal(t, "a later export waits", true, waits)
	r.drop(key("job"), "1")
	_, waits = later.Waits()
	topologytest.Equal(t, "the later export waits after the job", false, waits)
}

// A job that waits for an older job of its ConsumerQueue has no entry for the queue. Otherwise both would wait for each other.
func TestAJobThatIsNotFirstHasNoPlace(t *testing.T) {
	t.Parallel()
	r := newTasks(t, controllertest.NewEnqueued().Enqueue)
	export := r.users.Join(Key{}, queueAt("default", "orders.dlq"), func() {})
	r.acquire(key("younger"), "1", queueAt("default", "orders.dlq"))
	r.acquire(key("older"), "2", queueAt("default", "orders.dlq"))
	r.await(turn{key: key("younger")}, key("older"))
	export.Leave()
	_, granted := r.acquire(key("older"), "2", queueAt("default", "orders.dlq"))
	topologytest.Equal(t, "the older job has the turn", true, granted)
}

// A job that moves messages pauses for a browse and finds all messages afterwards. A count admits no browses, because it
// would miss the messages that a browse holds. The Register records only the turn of the job that moves messages.
func TestAJobPausesForABrowse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ dryRun, admits bool }{"moves": {false, true}, "counts": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTasks(t, controllertest.NewEnqueued().Enqueue)
			broker := brokerstest.NewMover(nil)
			r.acquire(key("job"), "1", queueAt("default", "orders.dlq"))
			config := silent(0)
			config.DryRun = test.dryRun
			r.begin(key("job"), Move{Broker: &brokers.Broker{Mover: broker}}, config, mover.Settings{}, time.Now())
			begun := <-broker.Begun
			topologytest.Equal(t, "paused at first", false, begun.Settings().Paused)
			begun.Report(mover.Progress{Held: 7})
			browse := r.users.Browse(Key{ObjectKey: key("orders").ObjectKey}, queueAt("default", "orders.dlq"), func() {})
			held, beside := browse.HeldByJob()
			topologytest.Equal(t, "the browse is admitted", test.admits, beside)
			topologytest.Equal(t, "held", map[bool]int{true: 7}[test.admits], held)
			topologytest.Equal(t, "paused", test.admits, begun.Settings().Paused)
			removals, _ := browse.Removals()
			topologytest.Equal(t, "turns of jobs that remove messages", map[bool]int{true: 1}[!test.dryRun], removals)
			browse.Leave()
			topologytest.Equal(t, "paused at the end", false, begun.Settings().Paused)
		})
	}
}
