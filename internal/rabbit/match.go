package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// AMQP and the management API are reached by two URIs, which may lead to two brokers: a slip in a Secret, or a Service that
// was switched before its Ingress. Whoever reads one broker and writes to the other reports nonsense and may delete what it
// never saw. So nothing is done over an AMQP connection before the management API has shown something that only this
// connection can have made: an exclusive queue, or, for a user who may not declare that, the connection itself.
const (
	firstGlance = 20 * time.Millisecond
	lastGlance  = 500 * time.Millisecond
)

// candidate is the AMQP connection that is open, until it is found to match and after.
type candidate struct {
	mu   sync.Mutex
	link *amqpconn.Conn // nil if there is none
	news chan struct{}  // a link is waiting to be matched
}

// offer has a link matched with the next look, which is to be soon.
func (c *candidate) offer(l *amqpconn.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	select {
	case c.news <- struct{}{}:
	default:
	}
}

func (c *candidate) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = nil
}

// take returns the link, if there is one; it is no news any more.
func (c *candidate) take() *amqpconn.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.news:
	default:
	}
	return c.link
}

func (c *candidate) current() *amqpconn.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// use does something unless the link has been withdrawn.
func (c *candidate) use(l *amqpconn.Conn, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l {
		do()
	}
}

// errLinkGone: the AMQP connection ended while it was being matched; there will be another one.
var errLinkGone = errors.New("the AMQP connection is gone")

// matchNew matches a link that waits for it.
func (c *Connection) matchNew(ctx context.Context) error {
	l := c.candidate.take()
	if l == nil || l.Matched {
		return nil
	}
	return c.match(ctx, l)
}

// matchAgain sees whether the management API still leads to the broker of the link: behind a proxy it can be another one
// from one request to the next. moved says that there was a new TCP connection.
func (c *Connection) matchAgain(ctx context.Context, moved bool) error {
	l := c.candidate.current()
	switch {
	case l == nil || !l.Matched || l.Queue == "" && !moved:
		return nil
	case l.Queue != "":
		seen, err := c.management.HasQueue(ctx, l.Queue)
		if err != nil || seen {
			return err
		}
	}
	return c.match(ctx, l)
}

// match lets a link be used, or refuses it.
func (c *Connection) match(ctx context.Context, l *amqpconn.Conn) error {
	byName, err := c.compare(ctx, l)
	l.Matched = err == nil
	switch {
	case errors.Is(err, errLinkGone):
		return nil
	case errors.Is(err, brokererr.ErrClusterMismatch):
		c.candidate.use(l, func() {
			c.channels.Set(nil, err)
			c.report(func(s *state) { s.mismatch, s.health.Matched = err, false })
		})
		c.management.Close() // the next request may lead elsewhere
		l.Refuse(err)
		return err
	case err != nil:
		c.candidate.use(l, func() { c.channels.Set(nil, err) })
		return err
	}
	c.candidate.use(l, func() {
		l.MatchedCluster.Store(&c.contact.Identity)
		c.channels.Set(l, nil)
		c.report(func(s *state) { s.mismatch, s.health.Matched, s.health.MatchedByName = nil, true, byName })
	})
	return nil
}

// compare looks for proof that a link and the management API are of one broker, and returns ErrClusterMismatch if they are
// not. byName says that only names could be compared.
func (c *Connection) compare(ctx context.Context, l *amqpconn.Conn) (byName bool, err error) {
	if l.Queue, err = c.declareMatchQueue(l); err != nil {
		return false, err
	}
	seen, told, err := c.shown(ctx, l)
	switch {
	case err != nil:
		return false, err
	case seen:
		return false, nil
	case !told && l.Name == c.contact.Identity.Name:
		return true, nil
	}
	if err := c.management.HasVHost(ctx); err != nil {
		return false, err
	}
	if l.Connection.IsClosed() {
		return false, errLinkGone
	}
	return false, c.errs.Fail(brokererr.ErrClusterMismatch,
		"AMQP at %s leads to RabbitMQ %s, cluster %q, and the management API at %s to RabbitMQ %s, cluster %q; "+
			"both must lead to one broker: correct one of the two URIs",
		management.EndpointOf(c.config.AMQPURI), l.Version, l.Name,
		management.EndpointOf(c.config.ManagementURI), c.contact.Version, c.contact.Identity.Name)
}

// shown says whether the management API shows what only this link can have made: its queue, or the link itself. told is false
// where this user is shown neither.
func (c *Connection) shown(ctx context.Context, l *amqpconn.Conn) (seen, told bool, err error) {
	if l.Queue != "" {
		seen, err = c.glance(ctx, c.timing.match, func() (bool, error) { return c.management.HasQueue(ctx, l.Queue) })
		return seen, true, err
	}
	if !c.contact.Capabilities.Statistics {
		return false, false, nil
	}
	if told, err = c.management.TellsConnections(ctx); err != nil || !told {
		return false, false, err
	}
	seen, err = c.glance(ctx, c.timing.statistics-time.Since(l.Opened), func() (bool, error) {
		return c.management.HasConnection(ctx, amqpconn.LinkProperty, l.Id)
	})
	return seen, true, err
}

// declareMatchQueue returns the name of the queue; empty if the user may not declare it. It lives as long as the link.
func (c *Connection) declareMatchQueue(l *amqpconn.Conn) (string, error) {
	name := management.MatchQueue + l.Id
	err := c.channels.Run(l, func(l *amqpconn.Conn) error {
		return l.WithChannel(func(channel *amqp.Channel) error {
			_, err := channel.QueueDeclare(name, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
			return err
		})
	})
	switch {
	case err == nil:
		return name, nil
	case errors.Is(err, brokererr.ErrUnreachable):
		return "", errLinkGone
	}
	return "", nil // a permission is missing, or the vhost may not have more queues
}

// glance asks again and again for a time, and at least once.
func (c *Connection) glance(ctx context.Context, limit time.Duration, ask func() (bool, error)) (bool, error) {
	until, wait := time.Now().Add(limit), firstGlance
	for {
		seen, err := ask()
		if err != nil || seen || time.Now().Add(wait).After(until) {
			return seen, err
		}
		if err := management.Sleep(ctx, c.errs, wait); err != nil {
			return false, err
		}
		wait = min(2*wait, lastGlance)
	}
}
