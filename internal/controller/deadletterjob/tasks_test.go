package deadletterjob

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func key(name string) Key { return Key{Redrive, client.ObjectKey{Namespace: "shop", Name: name}} }

// newTasks makes Tasks that tell whom they wake.
func newTasks(t *testing.T, tell func(client.ObjectKey)) *Tasks {
	t.Helper()
	tasks := NewTasks(t.Context(), &Register{})
	for _, kind := range []Kind{Redrive, Purge} {
		tasks.Wake(kind, tell)
	}
	return tasks
}

// silent are transfers that nobody observes.
func silent(moved int) transfer.Config {
	return transfer.Config{Moved: moved, Report: func(transfer.Progress) {}}
}

func turnAt(connection, queue string) Turn {
	return Turn{Connection: key(connection).ObjectKey, Location: ownership.Location{Cluster: vhost.Cluster{Name: "a"}, VHost: "/"}, Queue: queue}
}

func TestOneRedriveHasTheTurnAtAQueue(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	_, granted := r.acquire(key("first"), "1", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "first has the turn", true, granted)
	rival, granted := r.acquire(key("second"), "2", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn", false, granted)
	topologytest.Equal(t, "rival", key("first").user(), rival)
	_, granted = r.acquire(key("third"), "3", turnAt("default", "invoices.dlq"))
	topologytest.Equal(t, "third has the turn at another queue", true, granted)
	r.drop(key("first"), "1")
	topologytest.Equal(t, "woken", key("second").ObjectKey, <-told)
	_, granted = r.acquire(key("second"), "2", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn then", true, granted)
	r.drop(key("nobody"), "4")
	topologytest.Equal(t, "woken by nobody", 0, len(told))
}

// A status that could not be written leaves a turn in which nothing has begun.
func TestATurnInWhichNothingHasBegunIsGrantedAgain(t *testing.T) {
	t.Parallel()
	r := newTasks(t, controllertest.NewTold().Tell)
	for range 2 {
		_, granted := r.acquire(key("orders"), "1", turnAt("default", "orders.dlq"))
		topologytest.Equal(t, "granted", true, granted)
	}
	r.begin(key("orders"), Move{Broker: &brokers.Broker{Mover: brokerstest.NewMover(nil)}}, silent(0), transfer.Settings{}, time.Now())
	rival, granted := r.acquire(key("orders"), "2", turnAt("default", "invoices.dlq"))
	topologytest.Equal(t, "granted to another of that name while a transfer runs", false, granted)
	topologytest.Equal(t, "rival", key("orders").user(), rival)
}

// Jobs that wait for their destination may wait for days. They hold up no other job, and one namespace holds up no other.
func TestSlotsOfANamespace(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	broker := brokerstest.NewMover(nil)
	begun := map[string]transfer.Config{}
	begin := func(name string) (granted bool) {
		rival, granted := r.acquire(key(name), "1", turnAt("default", name))
		topologytest.Equal(t, "rival at the queue", User{}, rival)
		if granted {
			r.begin(key(name), Move{Broker: &brokers.Broker{Mover: broker}}, silent(0), transfer.Settings{}, time.Now())
			begun[name] = <-broker.Begun
		}
		return granted
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		topologytest.Equal(t, name+" begins", true, begin(name))
	}
	topologytest.Equal(t, "the fifth begins", false, begin("e"))
	stranger := Key{Redrive, client.ObjectKey{Namespace: "other", Name: "f"}}
	_, granted := r.acquire(stranger, "1", turnAt("default", "f"))
	topologytest.Equal(t, "one of another namespace begins", true, granted)

	for i, name := range []string{"a", "b", "c", "d"} {
		begun[name].Report(transfer.Progress{State: transfer.DestinationFull})
		topologytest.Equal(t, "woken for the state", key(name).ObjectKey, <-told)
		if i == 0 {
			topologytest.Equal(t, "woken for the slot", key("e").ObjectKey, <-told)
		}
	}
	for _, name := range []string{"e", "g", "h", "i"} {
		topologytest.Equal(t, name+" begins while others wait", true, begin(name))
	}
	for _, name := range []string{"e", "g", "h", "i"} {
		begun[name].Report(transfer.Progress{State: transfer.Blocked})
		topologytest.Equal(t, "woken for the state", key(name).ObjectKey, <-told)
	}
	topologytest.Equal(t, "the ninth begins though all wait", false, begin("j"))
	r.drop(stranger, "1")
	topologytest.Equal(t, "woken", key("j").ObjectKey, <-told)
}

func TestATransferTellsOfItsStatesAndOfItsEnd(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	broker := brokerstest.NewMover(nil)
	r.acquire(key("orders"), "1", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "begun", 0, len(r.begun(Redrive)))
	r.begin(key("orders"), Move{Broker: &brokers.Broker{Mover: broker}}, silent(2), transfer.Settings{Rate: 5}, time.Now())
	config := <-broker.Begun
	topologytest.Equal(t, "moved at first", 2, r.look(key("orders"), "1").Progress.Moved)
	topologytest.Equal(t, "rate", 5, config.Settings().Rate)
	r.change(key("orders"), transfer.Settings{Rate: 7})
	topologytest.Equal(t, "another rate", 7, config.Settings().Rate)

	config.Report(transfer.Progress{State: transfer.Moving, Moved: 2})
	topologytest.Equal(t, "woken for a state", key("orders").ObjectKey, <-told)
	config.Report(transfer.Progress{State: transfer.Moving, Moved: 3})
	topologytest.Equal(t, "woken for a number", 0, len(told))
	broker.End <- transfer.ErrTooManyFailures
	topologytest.Equal(t, "woken at the end", key("orders").ObjectKey, <-told)
	ended := r.look(key("orders"), "1")
	topologytest.Equal(t, "ended", true, ended.Ended)
	topologytest.Equal(t, "stopped", false, ended.Stopped)
	topologytest.Equal(t, "error", transfer.ErrTooManyFailures.Error(), ended.Err.Error())
	topologytest.Equal(t, "another of that name has a task", false, r.look(key("orders"), "2").Ended)
}

// A transfer that is stopped keeps its turn until it has settled what it has published.
func TestATransferOfARedriveThatIsGoneKeepsItsTurnUntilItHasEnded(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	broker := brokerstest.NewMover(nil)
	r.acquire(key("orders"), "1", turnAt("default", "orders.dlq"))
	r.begin(key("orders"), Move{Broker: &brokers.Broker{Mover: broker}}, silent(0), transfer.Settings{}, time.Now())
	<-broker.Begun
	r.forget(key("orders"), "1")
	topologytest.Equal(t, "stopped while the Redrive is there", false, r.look(key("orders"), "1").Stopped)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "stopped", true, r.look(key("orders"), "1").Stopped)
	r.drop(key("orders"), "another of that name, which halts")
	_, granted := r.acquire(key("next"), "2", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "the next one has the turn", false, granted)
	topologytest.Equal(t, "woken at the end", key("orders").ObjectKey, <-told)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "the next one is woken", key("next").ObjectKey, <-told)
	topologytest.Equal(t, "tasks", 0, len(r.begun(Redrive)))
}

// A look of the dead-letter API holds messages, which a job would not see. While the job waits, it keeps its place before looks that come later.
func TestAJobWaitsForALook(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	looker := User{ObjectKey: key("orders").ObjectKey}
	look := r.users.Join(looker, turnAt("default", "orders.dlq"), func() {})
	rival, granted := r.acquire(key("job"), "1", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "granted during the look", false, granted)
	topologytest.Equal(t, "rival", looker, rival)
	later := r.users.Join(looker, turnAt("default", "orders.dlq"), func() {})
	look.Leave()
	topologytest.Equal(t, "woken", key("job").ObjectKey, <-told)
	_, granted = r.acquire(key("job"), "1", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "granted after the look", true, granted)
	_, waits := later.Waits()
	topologytest.Equal(t, "a later look waits", true, waits)
	r.drop(key("job"), "1")
	_, waits = later.Waits()
	topologytest.Equal(t, "it waits after the job", false, waits)
}

// A job that waits for an older job of its ConsumerQueue keeps no place, or both would wait for each other.
func TestAJobThatIsNotFirstHasNoPlace(t *testing.T) {
	t.Parallel()
	r := newTasks(t, controllertest.NewTold().Tell)
	look := r.users.Join(User{}, turnAt("default", "orders.dlq"), func() {})
	r.acquire(key("younger"), "1", turnAt("default", "orders.dlq"))
	r.acquire(key("older"), "2", turnAt("default", "orders.dlq"))
	r.await(key("younger"))
	look.Leave()
	_, granted := r.acquire(key("older"), "2", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "the older one has the turn", true, granted)
}

// A browse slows a job down that moves messages, and does not hide any from it. A count would not see what the browse holds.
func TestAJobPausesForABrowse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ dryRun, letsIn bool }{"moves": {false, true}, "counts": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTasks(t, controllertest.NewTold().Tell)
			broker := brokerstest.NewMover(nil)
			r.acquire(key("job"), "1", turnAt("default", "orders.dlq"))
			config := silent(0)
			config.DryRun = test.dryRun
			r.begin(key("job"), Move{Broker: &brokers.Broker{Mover: broker}}, config, transfer.Settings{}, time.Now())
			begun := <-broker.Begun
			topologytest.Equal(t, "paused at first", false, begun.Settings().Paused)
			begun.Report(transfer.Progress{Held: 7})
			browse := r.users.Browse(User{ObjectKey: key("orders").ObjectKey}, turnAt("default", "orders.dlq"), func() {})
			held, hosted := browse.Host()
			topologytest.Equal(t, "the browse is let in", test.letsIn, hosted)
			topologytest.Equal(t, "held", map[bool]int{true: 7}[test.letsIn], held)
			topologytest.Equal(t, "paused", test.letsIn, begun.Settings().Paused)
			browse.Leave()
			topologytest.Equal(t, "paused at the end", false, begun.Settings().Paused)
		})
	}
}
