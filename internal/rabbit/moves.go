package rabbit

import (
	"context"
	"errors"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/brokermatch"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// moverProduct is the product name of connections that move or browse messages.
const moverProduct = "Warren mover"

// queueMover moves and browses the messages of queues.
type queueMover struct {
	errs     brokererr.Errors
	channels *amqpconn.Pool
	dialer   brokermatch.Dialer
	observer *observe.Observer
	// notify receives a notice when the broker begins or ceases to refuse access to the messages of a queue.
	notify  func(snapshot.Notice)
	refused refusedBrowses
}

// Move runs mover.Run on connections that only the move uses.
func (m *queueMover) Move(ctx context.Context, cluster string, config mover.Config) (mover.Progress, error) {
	defer m.observer.BeginConsuming(cluster, config.Queue)()
	if config.Destination != "" {
		defer m.observer.BeginFilling(cluster, config.Destination)()
	}
	config.Errs, config.Dial = m.errs, m.dialTo(cluster, "warren move "+config.Queue)
	report := config.Report
	config.Report = func(progress mover.Progress) {
		if progress.Examined() > config.Moved { // the user may read the queue
			m.noteBrowse(config.Queue, nil)
		}
		report(progress)
	}
	return mover.Run(ctx, config)
}

// Browse runs mover.Browse on a connection that only the browse uses.
func (m *queueMover) Browse(ctx context.Context, cluster string, config mover.BrowseConfig) (mover.Browsed, error) {
	defer m.observer.BeginConsuming(cluster, config.Queue)()
	config.Errs, config.Dial = m.errs, m.dialTo(cluster, "warren browse "+config.Queue)
	browsed, err := mover.Browse(ctx, config)
	m.noteBrowse(config.Queue, err)
	return browsed, err
}

// noteBrowse records the result of an attempt to read a queue, and sends a notice if a refusal begins or ends.
func (m *queueMover) noteBrowse(queue string, err error) {
	if err != nil && !errors.Is(err, brokererr.ErrAccessRefused) {
		return
	}
	if m.refused.set(queue, err) {
		m.notify(snapshot.Notice{Queues: []string{queue}})
	}
}

// dialTo returns a function that opens connections to a cluster.
func (m *queueMover) dialTo(cluster, name string) func(context.Context) (*amqpconn.Conn, error) {
	return func(ctx context.Context) (*amqpconn.Conn, error) {
		return m.Dial(ctx, cluster, name, amqpconn.LargestBody)
	}
}

// Dial opens a connection with this name. The connection discards bodies that are larger than largestBody.
func (m *queueMover) Dial(ctx context.Context, cluster, name string, largestBody int64) (*amqpconn.Conn, error) {
	dialer := m.dialer
	dialer.Options.Product, dialer.Options.Name, dialer.Options.LargestBody = moverProduct, name, largestBody
	return dialer.DialSecond(ctx, m.channels, cluster)
}

// refusedBrowses records which queues the broker has refused to show, and why. An entry is removed when a browse succeeds, when a move
// receives a message, or when the connection is closed, for example because the Secret changed. A restart forgets all entries, and the next
// browse records them again.
type refusedBrowses struct {
	mu sync.Mutex
	of map[string]error
}

// get returns the error of the last browse of a queue if the broker refused it; nil otherwise.
func (r *refusedBrowses) get(queue string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[queue]
}

// set records the error of a refused browse; nil clears it. It reports whether a refusal begins or ends.
func (r *refusedBrowses) set(queue string, err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = (r.of[queue] == nil) != (err == nil)
	if err == nil {
		delete(r.of, queue)
		return changed
	}
	if r.of == nil {
		r.of = map[string]error{}
	}
	r.of[queue] = err
	return changed
}
