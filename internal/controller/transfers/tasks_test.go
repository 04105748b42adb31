package transfers

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

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
	tasks := NewTasks(t.Context())
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
	_, granted := r.claim(key("first"), "1", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "first has the turn", true, granted)
	rival, granted := r.claim(key("second"), "2", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn", false, granted)
	topologytest.Equal(t, "rival", key("first"), rival)
	_, granted = r.claim(key("third"), "3", turnAt("default", "invoices.dlq"))
	topologytest.Equal(t, "third has the turn at another queue", true, granted)
	r.drop(key("first"), "1")
	topologytest.Equal(t, "woken", key("second").ObjectKey, <-told)
	_, granted = r.claim(key("second"), "2", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn then", true, granted)
	r.drop(key("nobody"), "4")
	topologytest.Equal(t, "woken by nobody", 0, len(told))
}

// A status that could not be written leaves a turn in which nothing has begun.
func TestATurnInWhichNothingHasBegunIsGrantedAgain(t *testing.T) {
	t.Parallel()
	r := newTasks(t, controllertest.NewTold().Tell)
	for range 2 {
		_, granted := r.claim(key("orders"), "1", turnAt("default", "orders.dlq"))
		topologytest.Equal(t, "granted", true, granted)
	}
	r.begin(key("orders"), Move{Broker: brokerstest.NewMover(nil)}, silent(0), transfer.Settings{}, time.Now())
	rival, granted := r.claim(key("orders"), "2", turnAt("default", "invoices.dlq"))
	topologytest.Equal(t, "granted to another of that name while a transfer runs", false, granted)
	topologytest.Equal(t, "rival", key("orders"), rival)
}

// Connections may spell the way to a cluster differently.
func TestTwoWaysToOneQueue(t *testing.T) {
	t.Parallel()
	one, other := turnAt("one", "orders.dlq"), turnAt("other", "orders.dlq")
	one.Location.Cluster = vhost.Cluster{ID: "x", Name: "a", Endpoint: "mq:5672"}
	other.Location.Cluster = vhost.Cluster{Name: "a", Endpoint: "rabbitmq.shop.svc:5672"}
	topologytest.Equal(t, "may be one queue", true, one.isAt(other))
	other.Location.Cluster = vhost.Cluster{ID: "y", Name: "a"}
	topologytest.Equal(t, "another cluster of that name", false, one.isAt(other))

	// A server of another tenant can claim to be any cluster, but not to listen at any address.
	other.Location.Cluster = vhost.Cluster{ID: "x", Name: "a", Endpoint: "evil:5672"}
	other.Connection.Namespace = "evil"
	topologytest.Equal(t, "another namespace claims the cluster", false, one.isAt(other))
	other.Location.Cluster.Endpoint = "mq:5672"
	topologytest.Equal(t, "another namespace at the same address", true, one.isAt(other))
}

func TestAConnectionHasFourTurns(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	for _, name := range []string{"a", "b", "c", "d"} {
		_, granted := r.claim(key(name), "1", turnAt("default", name))
		topologytest.Equal(t, name+" has a turn", true, granted)
	}
	rival, granted := r.claim(key("e"), "1", turnAt("default", "e"))
	topologytest.Equal(t, "the fifth has a turn", false, granted)
	topologytest.Equal(t, "its rival", Key{}, rival)
	_, granted = r.claim(key("f"), "1", turnAt("other", "f"))
	topologytest.Equal(t, "one of another connection has a turn", true, granted)
	r.drop(key("b"), "1")
	topologytest.Equal(t, "woken", key("e").ObjectKey, <-told)
}

func TestATransferTellsOfItsStatesAndOfItsEnd(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t, told.Tell)
	broker := brokerstest.NewMover(nil)
	r.claim(key("orders"), "1", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "begun", 0, len(r.Begun(Redrive)))
	r.begin(key("orders"), Move{Broker: broker}, silent(2), transfer.Settings{Rate: 5}, time.Now())
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
	r.claim(key("orders"), "1", turnAt("default", "orders.dlq"))
	r.begin(key("orders"), Move{Broker: broker}, silent(0), transfer.Settings{}, time.Now())
	<-broker.Begun
	r.forget(key("orders"), "1")
	topologytest.Equal(t, "stopped while the Redrive is there", false, r.look(key("orders"), "1").Stopped)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "stopped", true, r.look(key("orders"), "1").Stopped)
	r.drop(key("orders"), "another of that name, which halts")
	_, granted := r.claim(key("next"), "2", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "the next one has the turn", false, granted)
	topologytest.Equal(t, "woken at the end", key("orders").ObjectKey, <-told)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "the next one is woken", key("next").ObjectKey, <-told)
	topologytest.Equal(t, "tasks", 0, len(r.Begun(Redrive)))
}
