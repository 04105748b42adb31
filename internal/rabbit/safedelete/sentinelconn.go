package safedelete

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// sentinelIdle is how long the AMQP connection of sentinels is kept for the next deletion.
const sentinelIdle = 10 * time.Second

// sentinelConn is the AMQP connection for sentinels. It is separate, because under a memory or disk alarm the broker stops reading from a
// connection on which a message is published. The connection is opened on demand, and cut when the broker reports that the connection is
// blocked.
type sentinelConn struct {
	dial     func(ctx context.Context, cluster string) (*amqpconn.Conn, error)
	errs     brokererr.Errors
	timeouts timing.Timeouts
	opening  chan struct{} // held while the connection is opened

	mu      sync.Mutex
	current *alarmedLink
	closed  bool
	idle    *time.Timer
}

// alarmedLink is a connection that records why the broker blocks it.
type alarmedLink struct {
	*amqpconn.Conn
	users  int
	alarms chan string // at most one: why the broker blocked the connection
}

func newSentinelConn(
	errs brokererr.Errors, timeouts timing.Timeouts, dial func(context.Context, string) (*amqpconn.Conn, error),
) *sentinelConn {
	return &sentinelConn{errs: errs, timeouts: timeouts, dial: dial, opening: make(chan struct{}, 1)}
}

// alone runs an operation on a channel that no other operation uses, before or after. messages is the maximum number of messages that the
// operation publishes. alone returns only after the operation has ended.
func (s *sentinelConn) alone(ctx context.Context, cluster string, messages int, operation func(*publisher) error) error {
	l, err := s.acquire(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.release(l)
	if err := s.errs.SameCluster(l.Cluster(), cluster); err != nil {
		return err
	}
	watchdog := time.AfterFunc(s.timeouts.Operation, l.Cut)
	defer watchdog.Stop()
	err = l.WithExclusiveChannel(func(channel *amqp.Channel) error {
		p, err := l.NewPublisher(channel, messages)
		if err != nil {
			return err
		}
		watchdog.Stop() // from here on publish and check have their own watchdogs
		return operation(&publisher{p, l, s.timeouts.Operation})
	})
	return s.describe(l, err)
}

// describe translates an error of the connection.
func (s *sentinelConn) describe(l *alarmedLink, err error) error {
	select {
	case alarm := <-l.alarms:
		l.alarms <- alarm // for the other operations
		return s.errs.Fail(brokererr.ErrUnproven, "the broker has an alarm and takes no messages: %s", alarm)
	default:
	}
	return l.Classify(s.errs, err)
}

// check publishes a message that reaches no queue, to check that the broker takes messages at all.
func (s *sentinelConn) check(ctx context.Context, cluster string) error {
	return s.alone(ctx, cluster, 1, func(p *publisher) error {
		nowhere := "warren.nowhere." + rand.Text()
		watchdog := time.AfterFunc(s.timeouts.Operation, p.link.Cut)
		defer watchdog.Stop()
		_, err := p.Publish("", nowhere, amqp.Publishing{Type: SentinelType, AppId: sentinelApp})
		return err
	})
}

// arrived waits until a sentinel whose connection was cut can no longer arrive. After an alarm, the broker still publishes the messages
// that it had read from the connection.
func (d *Deleter) arrived(ctx context.Context, cluster string) error {
	if err := d.sentinels.check(ctx, cluster); err != nil {
		return err
	}
	return retry.Sleep(ctx, d.errs, d.Timeouts.Settle)
}

// acquire returns the open connection, or opens one.
func (s *sentinelConn) acquire(ctx context.Context, cluster string) (*alarmedLink, error) {
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, s.errs.Unreachable(ctx.Err())
	}
	defer func() { <-s.opening }()
	if l := s.use(); l != nil {
		return l, nil
	}
	opened, err := s.dial(ctx, cluster)
	if err != nil {
		return nil, err
	}
	l := &alarmedLink{Conn: opened, users: 1, alarms: make(chan string, 1)}
	ended := l.Connection.NotifyClose(make(chan *amqp.Error, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.CloseSocket()
		return nil, brokererr.ErrClosed
	}
	s.current = l
	go s.listen(l, ended)
	return l, nil
}

func (s *sentinelConn) use() *alarmedLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || s.current.Connection.IsClosed() {
		return nil
	}
	s.current.users++
	return s.current
}

// listen cuts the connection when the broker blocks it. Otherwise an operation would wait for a confirm until the alarm ends.
func (s *sentinelConn) listen(l *alarmedLink, ended <-chan *amqp.Error) {
	for {
		select {
		case now := <-l.Blocked():
			if now.Active {
				l.alarms <- now.Reason
				s.forget(l)
				l.CloseSocket()
				return
			}
		case <-ended: //nolint:errcheck // why it ended does not matter here
			s.forget(l)
			return
		}
	}
}

func (s *sentinelConn) forget(l *alarmedLink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == l {
		s.current = nil
	}
}

// release closes the connection some time after its last use.
func (s *sentinelConn) release(l *alarmedLink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users > 0 || s.current != l {
		return
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(sentinelIdle, func() { s.rest(l) })
}

func (s *sentinelConn) rest(l *alarmedLink) {
	s.mu.Lock()
	unused := l.users == 0 && s.current == l
	if unused {
		s.current = nil
	}
	s.mu.Unlock()
	if unused {
		l.Close(s.timeouts.Close)
	}
}

func (s *sentinelConn) close() {
	s.mu.Lock()
	l := s.current
	s.current, s.closed = nil, true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	if l != nil {
		l.Close(s.timeouts.Close)
	}
}
