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
	notify func(snapshot.Notice)
	// refused has the error of the last browse of each queue (string) that the broker has refused to show. An entry is removed when a
	// browse succeeds, or when a move receives a message. A new connection, for example with a new Secret, has none.
	refused sync.Map
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
	var wasRefused bool
	if err == nil {
		_, wasRefused = m.refused.LoadAndDelete(queue)
	} else {
		_, wasRefused = m.refused.Swap(queue, err)
	}
	if wasRefused == (err == nil) {
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
