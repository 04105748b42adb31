package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/timing"
)

// dialer opens AMQP connections.
type dialer struct {
	options  amqpconn.DialOptions
	timeouts timing.Timeouts
	errs     brokererr.Errors
}

// supervisor keeps the AMQP connection open.
type supervisor struct {
	dialer

	links       *linkSlot
	channels    *amqpconn.Pool
	health      *health.State
	reconnected func()
}

// run connects again and again.
func (s *supervisor) run(ctx context.Context) {
	again := retry.Backoff{First: s.timeouts.FirstRetry, Limit: s.timeouts.LastRetry}
	for first := true; ; first = false {
		began := time.Now()
		l, err := amqpconn.Dial(ctx, s.options)
		if err == nil {
			err = s.supervise(ctx, l, first)
			if time.Since(began) > timing.MinStable {
				again.Reset()
			}
		}
		if !errors.Is(err, brokererr.ErrClusterMismatch) { // which says so itself
			err = fmt.Errorf("AMQP: %w", err)
		}
		if ctx.Err() != nil {
			s.channels.Set(nil, brokererr.ErrClosed)
			return
		}
		s.channels.Set(nil, err)
		s.health.Update(func(s *health.Parts) {
			s.AMQP, s.Health.Connected, s.Health.Matched = err, false, false
			if errors.Is(err, brokererr.ErrClusterMismatch) {
				s.AMQP = nil
			}
		})
		timer := time.NewTimer(again.Wait())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// supervise returns when an AMQP connection has ended, and why. The next refresh decides whether the connection may be used.
// After a time without a connection, what is known of the broker may be out of date.
func (s *supervisor) supervise(ctx context.Context, l *amqpconn.Conn, first bool) error {
	ended := l.Connection.NotifyClose(make(chan *amqp.Error, 1))
	defer s.channels.SetBlocked(false)
	s.health.Update(func(s *health.Parts) {
		s.AMQP, s.Health.Connected, s.AMQPVersion = nil, true, l.Version
		s.Connects++
	})
	if !first {
		s.reconnected()
	}
	s.links.offer(l)
	defer s.links.withdraw()
	for {
		select {
		case now := <-l.Blocked():
			s.channels.SetBlocked(now.Active)
		case err := <-l.Refused:
			l.Close(s.timeouts.Close)
			return err
		case reply := <-ended:
			l.CloseSocket()
			if reply == nil || l.Overdue.Load() {
				return s.errs.Fail(brokererr.ErrTimeout, "AMQP operation")
			}
			return s.errs.Fail(brokererr.ErrUnreachable, "the AMQP connection was closed: %s", brokererr.WithoutCode(reply.Reason))
		case <-ctx.Done():
			l.Close(s.timeouts.Close)
			return brokererr.ErrClosed
		}
	}
}
