package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

const (
	// idleWait is how long a drain waits before it returns what was never started, so that other consumers get it.
	idleWait = time.Second
	// maxLateAcks is how many acks that follow basic.cancel are safe: quorum queues forget further ones if the channel is closed then.
	maxLateAcks = 32
	// abandonWait is what handlers have after their context has ended.
	abandonWait = 2 * time.Second
)

// drain ends a session in the order that loses nothing and repeats nothing: nothing more is started, handlers and copies end, their acks
// are sent, and the consumer is cancelled, which makes the queue take the acks before the channel is closed. Only then are messages
// returned: before, the broker would send them here again.
func (c *Consumer) drain(s *session) error {
	c.setState(StateShuttingDown, nil)
	began := time.Now()
	s.stop()
	c.setState(StateDrainingQueue, nil)
	if !s.awaitIdle(min(idleWait, s.settings.drain)) && !s.contract.SingleActiveConsumer && s.settings.prefetch <= maxLateAcks {
		_ = s.cancelEarly() // returnAndClose tries again
	}
	lost := !s.awaitIdle(s.settings.drain - time.Since(began))
	var abandoned []string
	if lost {
		s.cancel(ErrDraining)
		if !s.awaitIdle(abandonWait) {
			abandoned = s.runningHandlers()
		}
	}
	s.returnAndClose()
	s.cancel(ErrDraining)
	if len(abandoned) > 0 {
		return &DrainError{Abandoned: abandoned}
	}
	return nil
}

// awaitIdle waits until no delivery is at work; false if that takes longer.
func (s *session) awaitIdle(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	alive := time.NewTicker(livenessTimeout / 4)
	defer alive.Stop()
	for s.active.Load() > 0 {
		select {
		case <-s.idle:
		case <-alive.C:
			s.consumer.status.recordProgress()
		case err := <-s.over: // what ends from now on is void
			s.lose(fmt.Errorf("%w: %w", ErrDeliveryLost, err))
		case <-timer.C:
			return false
		}
	}
	return true
}

// cancelEarly cancels the consumer while few messages are at work, and returns those that were never started.
func (s *session) cancelEarly() error {
	untouched, err := s.unsubscribe()
	if err != nil {
		return err
	}
	for _, next := range untouched {
		s.settleAfterCancel(next.DeliveryTag, contract.VerbReturn)
	}
	for _, left := range s.takePending() {
		if err := s.settleNow(left.tag, left.verb); err != nil {
			return err
		}
	}
	return nil
}

// returnAndClose sends what is left of acks, returns what is not settled, and closes the channel. A single active consumer is not cancelled:
// the next one would begin before this one has returned its messages.
func (s *session) returnAndClose() {
	_ = s.withTimeout(func() error {
		if err := s.acker.flush(); err != nil {
			return err
		}
		if s.contract.SingleActiveConsumer {
			return s.acker.finish()
		}
		if _, err := s.unsubscribe(); err != nil {
			return err
		}
		for _, left := range s.takePending() {
			if left.verb == contract.VerbRequeue { // which counts as an attempt
				if err := s.settleNow(left.tag, left.verb); err != nil {
					return err
				}
			}
		}
		return s.acker.returnAll()
	})
	s.acker.close()
	_ = s.withTimeout(s.channel.Close)
}

// withTimeout limits a request. A broker that does not answer loses the connection.
func (s *session) withTimeout(request func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, s.connection.Kill)()
	return request()
}

// runningHandlers names the deliveries whose handlers run.
func (s *session) runningHandlers() []string {
	var names []string
	for _, w := range s.consumer.workers.of(s) {
		if h := w.current.Load(); h != nil {
			names = append(names, h.delivery.String())
		}
	}
	slices.Sort(names)
	return names
}
