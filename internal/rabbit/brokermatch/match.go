package brokermatch

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
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// AMQP and the management API have two URIs. They may lead to two brokers because of a mistake in a Secret, or because a Service was
// switched before its Ingress. A connection that reads one broker and writes to another reports wrong states and may delete objects that it
// never saw. Warren therefore uses an AMQP connection only after the management API has shown its exclusive queue, or the connection itself
// if the user may not declare the queue. Only this connection can have created them.
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

// Matcher proves that AMQP and the management API lead to one broker.
type Matcher struct {
	Settings
	links *linkSlot
	// Matched receives a value for each link that matches.
	Matched chan struct{}
}

// Settings configure a matcher.
type Settings struct {
	AMQPURI, ManagementURI string
	// ServerName is the name that the broker's certificate must have; empty if it is the host of the URI.
	ServerName string
	// Owner is the owner of the connection; see health.Place.
	Owner    string
	Errors   brokererr.Errors
	Timeouts timing.Timeouts
	API      *management.Client
	// Channels receives each link that matches.
	Channels *amqpconn.Pool
	Health   *health.State
}

// New returns a matcher without a link.
func New(settings Settings) *Matcher {
	return &Matcher{Settings: settings, links: newLinkSlot(), Matched: make(chan struct{}, 1)}
}

// Offered returns a channel that receives when a link waits to be matched.
func (m *Matcher) Offered() <-chan struct{} { return m.links.offered }

// IsMatched reports whether the open AMQP connection was shown to lead to the broker of the management API.
func (m *Matcher) IsMatched() bool {
	l := m.links.current()
	return l != nil && l.Matched
}

// IsWaiting reports whether an AMQP connection is open that MatchNew has not matched.
func (m *Matcher) IsWaiting() bool {
	l := m.links.current()
	return l != nil && !l.Matched
}

// Rematch matches the link again if the management API may now lead to another broker.
func (m *Matcher) Rematch(before, now *management.BrokerInfo) {
	l := m.links.current()
	if l == nil || !l.Matched {
		return
	}
	if l.Matched = now.Identity.Is(before.Identity); l.Matched {
		l.MatchedCluster.Store(&now.Identity)
		return
	}
	m.Channels.Set(nil, m.Errors.Fail(brokererr.ErrUnreachable, "cluster %q answered instead of %q",
		now.Identity.Name, before.Identity.Name))
}

// errLinkGone: the AMQP connection ended while it was being matched. Supervisor opens another one.
var errLinkGone = errors.New("the AMQP connection is gone")

// MatchNew matches a link that waits for it.
func (m *Matcher) MatchNew(ctx context.Context, info *management.BrokerInfo) error {
	l := m.links.accept()
	if l == nil || l.Matched {
		return nil
	}
	return m.match(ctx, info, l)
}

// IsShownAgain reports whether the management API still shows the queue of the link. Behind a proxy, two requests can lead to two
// brokers. It returns false for a link without a queue, and for one that was never matched.
func (m *Matcher) IsShownAgain(ctx context.Context) (bool, error) {
	l := m.links.current()
	if l == nil || !l.Matched || l.Queue == "" {
		return false, nil
	}
	return m.API.HasQueue(ctx, l.Queue)
}

// MatchAgain matches the link again after IsShownAgain did not find it. moved reports whether the management API was reached over a new TCP
// connection.
func (m *Matcher) MatchAgain(ctx context.Context, info *management.BrokerInfo, moved bool) error {
	l := m.links.current()
	if l == nil || !l.Matched || l.Queue == "" && !moved {
		return nil
	}
	return m.match(ctx, info, l)
}

// match accepts or refuses a link.
func (m *Matcher) match(ctx context.Context, info *management.BrokerInfo, l *amqpconn.Conn) error {
	byName, err := m.compare(ctx, info, l)
	if err == nil {
		err = m.CheckStillAnswers(ctx, info)
	}
	l.Matched = err == nil
	switch {
	case errors.Is(err, errLinkGone):
		return nil
	case errors.Is(err, brokererr.ErrClusterMismatch):
		m.links.use(l, func() {
			m.Channels.Set(nil, err)
			m.Health.Update(func(s *health.Parts) { s.Mismatch, s.Health.Matched = err, false })
		})
		m.API.Close() // the next request may lead elsewhere
		l.Refuse(err)
		return err
	case err != nil:
		m.links.use(l, func() { m.Channels.Set(nil, err) })
		return err
	}
	m.links.use(l, func() {
		l.MatchedCluster.Store(&info.Identity)
		m.Channels.Set(l, nil)
		m.Health.Update(func(s *health.Parts) {
			s.Mismatch, s.Health.Matched, s.Health.MatchedByName = nil, true, byName
			s.Health.Cluster = info.Identity
			m.place(&s.Health.Place, l.Queue)
		})
		select {
		case m.Matched <- struct{}{}:
		default: // the receiver has not taken the previous value yet
		}
	})
	return nil
}

// place records that AMQP was matched through a queue.
func (m *Matcher) place(p *health.Place, matchQueue string) {
	p.MatchQueue, p.MatchedAt, p.Owner = matchQueue, time.Now(), m.Owner
	if p.Since.IsZero() {
		p.Since = p.MatchedAt
	}
	if m.ServerName == "" {
		p.Address = management.EndpointOf(m.AMQPURI)
	}
}

// CheckStillAnswers fails if the answering cluster is not the cluster that was probed before the management API showed the link. Without
// this check, the probed cluster could be mistaken for the cluster of the link.
func (m *Matcher) CheckStillAnswers(ctx context.Context, info *management.BrokerInfo) error {
	now, _, err := m.API.Identity(ctx)
	if err == nil && !now.Is(info.Identity) {
		err = m.Errors.Fail(brokererr.ErrUnreachable, "cluster %q answered instead of %q", now.Name, info.Identity.Name)
	}
	return err
}

// compare looks for proof that a link and the management API belong to one broker, and returns ErrClusterMismatch if they do not. byName
// reports whether only names could be compared.
func (m *Matcher) compare(ctx context.Context, info *management.BrokerInfo, l *amqpconn.Conn) (byName bool, err error) {
	if l.Queue, err = m.declareMatchQueue(l); err != nil {
		return false, err
	}
	seen, visible, err := m.shown(ctx, info, l)
	switch {
	case err != nil:
		return false, err
	case seen:
		return false, nil
	case !visible && l.Name == info.Identity.Name:
		return true, nil
	}
	if err := m.API.HasVHost(ctx); err != nil {
		return false, err
	}
	if l.Connection.IsClosed() {
		return false, errLinkGone
	}
	return false, m.Errors.Fail(brokererr.ErrClusterMismatch,
		"AMQP at %s leads to RabbitMQ %s, cluster %q, and the management API at %s to RabbitMQ %s, cluster %q. "+
			"Both must lead to one broker: correct one of the two URIs",
		management.EndpointOf(m.AMQPURI), l.Version, l.Name,
		management.EndpointOf(m.ManagementURI), info.Version, info.Identity.Name)
}

// shown reports whether the management API shows the queue of this link, or the link itself. visible is false if it shows neither
// to this user.
func (m *Matcher) shown(ctx context.Context, info *management.BrokerInfo, l *amqpconn.Conn) (seen, visible bool, err error) {
	if l.Queue != "" {
		seen, err = m.poll(ctx, m.Timeouts.Match, func() (bool, error) { return m.API.HasQueue(ctx, l.Queue) })
		return seen, true, err
	}
	if !info.Capabilities.Statistics {
		return false, false, nil
	}
	if visible, err = m.API.ListsConnections(ctx); err != nil || !visible {
		return false, false, err
	}
	seen, err = m.poll(ctx, m.Timeouts.Statistics-time.Since(l.Opened), func() (bool, error) {
		return m.API.HasConnection(ctx, amqpconn.LinkProperty, l.ID)
	})
	return seen, true, err
}

// declareMatchQueue returns the name of the queue; empty if the user may not declare it. The queue exists as long as the link.
func (m *Matcher) declareMatchQueue(l *amqpconn.Conn) (string, error) {
	name := management.MatchQueue + l.ID
	err := m.Channels.Run(l, func(l *amqpconn.Conn) error {
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

// poll calls ask until it returns true or the limit is over, and at least once.
func (m *Matcher) poll(ctx context.Context, limit time.Duration, ask func() (bool, error)) (bool, error) {
	until, wait := time.Now().Add(limit), firstPoll
	for {
		seen, err := ask()
		if err != nil || seen || time.Now().Add(wait).After(until) {
			return seen, err
		}
		if err := retry.Sleep(ctx, m.Errors, wait); err != nil {
			return false, err
		}
		wait = min(2*wait, lastPoll)
	}
}
