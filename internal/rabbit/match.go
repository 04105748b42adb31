package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// AMQP and the management API have two URIs, which may lead to two brokers: by a mistake in a Secret, or because a Service was
// switched before its Ingress. A connection that reads one broker and writes to another reports wrong states and may delete
// objects that it never saw. So nothing is done over an AMQP connection before the management API has shown something that only
// this connection can have made: an exclusive queue, or the connection itself if the user may not declare the queue.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = 500 * time.Millisecond
)

// linkSlot holds the open AMQP connection, before and after it is matched.
type linkSlot struct {
	offered chan struct{} // a link waits to be matched

	mu   sync.Mutex
	link *amqpconn.Conn // nil if there is none
}

func newLinkSlot() *linkSlot { return &linkSlot{offered: make(chan struct{}, 1)} }

// offer makes the next refresh match a link, and requests that refresh.
func (s *linkSlot) offer(l *amqpconn.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	select {
	case s.offered <- struct{}{}:
	default:
	}
}

func (s *linkSlot) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = nil
}

// accept returns the link, if there is one, and clears the offer.
func (s *linkSlot) accept() *amqpconn.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.offered:
	default:
	}
	return s.link
}

func (s *linkSlot) current() *amqpconn.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

// use calls do unless the link has been withdrawn.
func (s *linkSlot) use(l *amqpconn.Conn, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == l {
		do()
	}
}

// matcher proves that AMQP and the management API lead to one broker.
type matcher struct {
	config   Config
	errs     brokererr.Errors
	timeouts timing.Timeouts
	api      *management.Client
	links    *linkSlot
	channels *amqpconn.Pool
	health   *health.State
	matched  chan<- struct{} // receives for each link that matches
}

// isMatched reports whether the open AMQP connection was shown to lead to the broker of the management API.
func (m *matcher) isMatched() bool {
	l := m.links.current()
	return l != nil && l.Matched
}

// rematch matches the link again if the broker may be another one than before.
func (m *matcher) rematch(before, now *management.BrokerInfo) {
	l := m.links.current()
	if l == nil || !l.Matched {
		return
	}
	if l.Matched = now.Identity.Is(before.Identity); l.Matched {
		l.MatchedCluster.Store(&now.Identity)
		return
	}
	m.channels.Set(nil, m.errs.Fail(brokererr.ErrUnreachable, "cluster %q answered in the place of %q",
		now.Identity.Name, before.Identity.Name))
}

// errLinkGone: the AMQP connection ended while it was being matched. Another one will follow.
var errLinkGone = errors.New("the AMQP connection is gone")

// matchNew matches a link that waits for it.
func (m *matcher) matchNew(ctx context.Context, info *management.BrokerInfo) error {
	l := m.links.accept()
	if l == nil || l.Matched {
		return nil
	}
	return m.match(ctx, info, l)
}

// isShownAgain reports whether the management API still shows the queue of the link. Behind a proxy, two requests can lead to two
// brokers. It returns false for a link without a queue, and for one that was never matched.
func (m *matcher) isShownAgain(ctx context.Context) (bool, error) {
	l := m.links.current()
	if l == nil || !l.Matched || l.Queue == "" {
		return false, nil
	}
	return m.api.HasQueue(ctx, l.Queue)
}

// matchAgain matches a link again that isShownAgain did not find. moved says that there was a new TCP connection.
func (m *matcher) matchAgain(ctx context.Context, info *management.BrokerInfo, moved bool) error {
	l := m.links.current()
	if l == nil || !l.Matched || l.Queue == "" && !moved {
		return nil
	}
	return m.match(ctx, info, l)
}

// match accepts or refuses a link.
func (m *matcher) match(ctx context.Context, info *management.BrokerInfo, l *amqpconn.Conn) error {
	byName, err := m.compare(ctx, info, l)
	if err == nil {
		err = m.checkStillAnswers(ctx, info)
	}
	l.Matched = err == nil
	switch {
	case errors.Is(err, errLinkGone):
		return nil
	case errors.Is(err, brokererr.ErrClusterMismatch):
		m.links.use(l, func() {
			m.channels.Set(nil, err)
			m.health.Update(func(s *health.Parts) { s.Mismatch, s.Health.Matched = err, false })
		})
		m.api.Close() // the next request may lead elsewhere
		l.Refuse(err)
		return err
	case err != nil:
		m.links.use(l, func() { m.channels.Set(nil, err) })
		return err
	}
	m.links.use(l, func() {
		l.MatchedCluster.Store(&info.Identity)
		m.channels.Set(l, nil)
		m.health.Update(func(s *health.Parts) {
			s.Mismatch, s.Health.Matched, s.Health.MatchedByName = nil, true, byName
			s.Health.Cluster = info.Identity
			m.place(&s.Health.Place, l.Queue)
		})
		select {
		case m.matched <- struct{}{}:
		default: // the listener has not received the last one yet
		}
	})
	return nil
}

// place records that AMQP was matched through a queue.
func (m *matcher) place(p *health.Place, matchQueue string) {
	p.MatchQueue, p.MatchedAt, p.Owner = matchQueue, time.Now(), m.config.Owner
	if p.Since.IsZero() {
		p.Since = p.MatchedAt
	}
	if m.config.ServerName == "" {
		p.Address = management.EndpointOf(m.config.AMQPURI)
	}
}

// checkStillAnswers fails if another cluster answers than the cluster that was probed before the management API showed the link.
// Otherwise the probed cluster would count as the cluster of the link.
func (m *matcher) checkStillAnswers(ctx context.Context, info *management.BrokerInfo) error {
	now, _, err := m.api.Identity(ctx)
	if err == nil && !now.Is(info.Identity) {
		err = m.errs.Fail(brokererr.ErrUnreachable, "cluster %q answered in the place of %q", now.Name, info.Identity.Name)
	}
	return err
}

// compare looks for proof that a link and the management API belong to one broker, and returns ErrClusterMismatch if they do not.
// byName reports that only names could be compared.
func (m *matcher) compare(ctx context.Context, info *management.BrokerInfo, l *amqpconn.Conn) (byName bool, err error) {
	if l.Queue, err = m.declareMatchQueue(l); err != nil {
		return false, err
	}
	seen, told, err := m.shown(ctx, info, l)
	switch {
	case err != nil:
		return false, err
	case seen:
		return false, nil
	case !told && l.Name == info.Identity.Name:
		return true, nil
	}
	if err := m.api.HasVHost(ctx); err != nil {
		return false, err
	}
	if l.Connection.IsClosed() {
		return false, errLinkGone
	}
	return false, m.errs.Fail(brokererr.ErrClusterMismatch,
		"AMQP at %s leads to RabbitMQ %s, cluster %q, and the management API at %s to RabbitMQ %s, cluster %q; "+
			"both must lead to one broker: correct one of the two URIs",
		management.EndpointOf(m.config.AMQPURI), l.Version, l.Name,
		management.EndpointOf(m.config.ManagementURI), info.Version, info.Identity.Name)
}

// shown reports whether the management API shows what only this link can have made: its queue, or the link itself. told is false
// if this user is shown neither.
func (m *matcher) shown(ctx context.Context, info *management.BrokerInfo, l *amqpconn.Conn) (seen, told bool, err error) {
	if l.Queue != "" {
		seen, err = m.poll(ctx, m.timeouts.Match, func() (bool, error) { return m.api.HasQueue(ctx, l.Queue) })
		return seen, true, err
	}
	if !info.Capabilities.Statistics {
		return false, false, nil
	}
	if told, err = m.api.TellsConnections(ctx); err != nil || !told {
		return false, false, err
	}
	seen, err = m.poll(ctx, m.timeouts.Statistics-time.Since(l.Opened), func() (bool, error) {
		return m.api.HasConnection(ctx, amqpconn.LinkProperty, l.ID)
	})
	return seen, true, err
}

// declareMatchQueue returns the name of the queue; empty if the user may not declare it. The queue exists as long as the link.
func (m *matcher) declareMatchQueue(l *amqpconn.Conn) (string, error) {
	name := management.MatchQueue + l.ID
	err := m.channels.Run(l, func(l *amqpconn.Conn) error {
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

// poll repeats a question for some time, and asks at least once.
func (m *matcher) poll(ctx context.Context, limit time.Duration, ask func() (bool, error)) (bool, error) {
	until, wait := time.Now().Add(limit), firstPoll
	for {
		seen, err := ask()
		if err != nil || seen || time.Now().Add(wait).After(until) {
			return seen, err
		}
		if err := management.Sleep(ctx, m.errs, wait); err != nil {
			return false, err
		}
		wait = min(2*wait, lastPoll)
	}
}
