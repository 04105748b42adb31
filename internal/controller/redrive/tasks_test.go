package redrive

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// mover is a broker whose transfers go on until they are told to end.
type mover struct {
	brokers.Broker
	begun chan transfer.Config
	end   chan error
}

func newMover() *mover { return &mover{begun: make(chan transfer.Config, 10), end: make(chan error)} }

func (m *mover) Transfer(ctx context.Context, _ string, config transfer.Config) (transfer.Progress, error) {
	m.begun <- config
	select {
	case err := <-m.end:
		return transfer.Progress{Moved: 3}, err
	case <-ctx.Done():
		return transfer.Progress{Moved: 1}, nil
	}
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }

func turnAt(connection, queue string) turn {
	return turn{connection: key(connection), cluster: "a", vhost: "/", queue: queue}
}

func TestOneRedriveHasTheTurnAtAQueue(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t.Context(), told.Tell)
	_, granted := r.claim(key("first"), "1", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "first has the turn", true, granted)
	rival, granted := r.claim(key("second"), "2", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn", false, granted)
	topologytest.Equal(t, "rival", key("first"), rival)
	_, granted = r.claim(key("third"), "3", turnAt("default", "invoices.dlq"))
	topologytest.Equal(t, "third has the turn at another queue", true, granted)
	r.drop(key("first"))
	topologytest.Equal(t, "woken", key("second"), <-told)
	_, granted = r.claim(key("second"), "2", turnAt("other", "orders.dlq"))
	topologytest.Equal(t, "second has the turn then", true, granted)
	r.drop(key("nobody"))
	topologytest.Equal(t, "woken by nobody", 0, len(told))
}

func TestAConnectionHasFourTurns(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t.Context(), told.Tell)
	for _, name := range []string{"a", "b", "c", "d"} {
		_, granted := r.claim(key(name), "1", turnAt("default", name))
		topologytest.Equal(t, name+" has a turn", true, granted)
	}
	rival, granted := r.claim(key("e"), "1", turnAt("default", "e"))
	topologytest.Equal(t, "the fifth has a turn", false, granted)
	topologytest.Equal(t, "its rival", client.ObjectKey{}, rival)
	_, granted = r.claim(key("f"), "1", turnAt("other", "f"))
	topologytest.Equal(t, "one of another connection has a turn", true, granted)
	r.drop(key("b"))
	topologytest.Equal(t, "woken", key("e"), <-told)
}

func TestATransferTellsOfItsStatesAndOfItsEnd(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t.Context(), told.Tell)
	broker := newMover()
	r.claim(key("orders"), "1", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "begun", 0, len(r.begun()))
	r.begin(key("orders"), move{broker: broker}, transfer.Config{Moved: 2}, transfer.Settings{Rate: 5}, time.Now())
	config := <-broker.begun
	topologytest.Equal(t, "moved at first", 2, r.look(key("orders"), "1").progress.Moved)
	topologytest.Equal(t, "rate", 5, config.Settings().Rate)
	r.change(key("orders"), transfer.Settings{Rate: 7})
	topologytest.Equal(t, "another rate", 7, config.Settings().Rate)

	config.Report(transfer.Progress{State: transfer.Moving, Moved: 2})
	topologytest.Equal(t, "woken for a state", key("orders"), <-told)
	config.Report(transfer.Progress{State: transfer.Moving, Moved: 3})
	topologytest.Equal(t, "woken for a number", 0, len(told))
	broker.end <- transfer.ErrTooManyFailures
	topologytest.Equal(t, "woken at the end", key("orders"), <-told)
	ended := r.look(key("orders"), "1")
	topologytest.Equal(t, "ended", true, ended.ended)
	topologytest.Equal(t, "stopped", false, ended.stopped)
	topologytest.Equal(t, "error", transfer.ErrTooManyFailures.Error(), ended.err.Error())
	topologytest.Equal(t, "another of that name has a task", false, r.look(key("orders"), "2").ended)
}

// A transfer that is stopped keeps its turn until it has settled what it has published.
func TestATransferOfARedriveThatIsGoneKeepsItsTurnUntilItHasEnded(t *testing.T) {
	t.Parallel()
	told := controllertest.NewTold()
	r := newTasks(t.Context(), told.Tell)
	broker := newMover()
	r.claim(key("orders"), "1", turnAt("default", "orders.dlq"))
	r.begin(key("orders"), move{broker: broker}, transfer.Config{}, transfer.Settings{}, time.Now())
	<-broker.begun
	r.forget(key("orders"), "1")
	topologytest.Equal(t, "stopped while the Redrive is there", false, r.look(key("orders"), "1").stopped)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "stopped", true, r.look(key("orders"), "1").stopped)
	_, granted := r.claim(key("next"), "2", turnAt("default", "orders.dlq"))
	topologytest.Equal(t, "the next one has the turn", false, granted)
	topologytest.Equal(t, "woken at the end", key("orders"), <-told)
	r.forget(key("orders"), "")
	topologytest.Equal(t, "the next one is woken", key("next"), <-told)
	topologytest.Equal(t, "tasks", 0, len(r.begun()))
}
