package brokermatch

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

// Dialer opens AMQP connections.
type Dialer struct {
	Options  amqpconn.DialOptions
	Timeouts timing.Timeouts
	Errs     brokererr.Errors
}

// Supervisor keeps the AMQP connection open.
type Supervisor struct {
	Dialer

	Matcher *Matcher
	// Reconnected is called when AMQP has connected again.
	Reconnected func()
}

// Run connects, and reconnects until the context ends.
func (s *Supervisor) Run(ctx context.Context) {
	again := retry.Backoff{First: s.Timeouts.FirstRetry, Limit: s.Timeouts.LastRetry}
	for first := true; ; first = false {
		began := time.Now()
		l, err := amqpconn.Dial(ctx, s.Options)
		if err == nil {
			err = s.supervise(ctx, l, first)
			if time.Since(began) > timing.MinStable {
				again.Reset()
			}
		}
		if !errors.Is(err, brokererr.ErrClusterMismatch) { // its message names AMQP
			err = fmt.Errorf("AMQP: %w", err)
		}
		if ctx.Err() != nil {
			s.Matcher.Channels.Set(nil, brokererr.ErrClosed)
			return
		}
		s.Matcher.Channels.Set(nil, err)
		s.Matcher.Health.Update(func(s *health.Parts) {
			s.AMQP, s.Health.Connected, s.Health.Matched = err, false, false
			if errors.Is(err, brokererr.ErrClusterMismatch) {
				s.AMQP = nil
			}
		})
		_ = retry.Sleep(ctx, s.Errs, again.Wait()) // the next dial fails if the context has ended
	}
}

// supervise waits for the end of an AMQP connection and returns its error. The next refresh decides whether the connection may be used.
// After a reconnect, the snapshot may be out of date.
func (s *Supervisor) supervise(ctx context.Context, l *amqpconn.Conn, first bool) error {
	ended := l.Connection.NotifyClose(make(chan *amqp.Error, 1))
	defer s.Matcher.Channels.SetBlocked(false)
	s.Matcher.Health.Update(func(s *health.Parts) {
		s.AMQP, s.Health.Connected, s.AMQPVersion = nil, true, l.Version
		s.Connects++
	})
	if !first {
		s.Reconnected()
	}
	s.Matcher.links.offer(l)
	defer s.Matcher.links.withdraw()
	for {
		select {
		case now := <-l.Blocked():
			s.Matcher.Channels.SetBlocked(now.Active)
		case err := <-l.Refused:
			l.Close(s.Timeouts.Close)
			return err
		case reply := <-ended:
			l.CloseSocket()
			if reply == nil || l.Overdue.Load() {
				return s.Errs.Fail(brokererr.ErrTimeout, "AMQP operation")
			}
			return s.Errs.Fail(brokererr.ErrUnreachable, "the AMQP connection was closed: %s", brokererr.WithoutCode(reply.Reason))
		case <-ctx.Done():
			l.Close(s.Timeouts.Close)
			return brokererr.ErrClosed
		}
	}
}
