package consumer

import (
	"fmt"
	"sync"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

const (
	// idleWait is how long a drain waits for running handlers before it returns messages that were never started to other
	// consumers.
	idleWait = time.Second
	// maxLateSettlements is how many acks and returns may precede the close of a channel without basic.cancel in between. Quorum queues
	// lose further ones.
	maxLateSettlements = 32
	// abandonWait is how long handlers may still run after their context ended.
	abandonWait = 2 * time.Second
	// endTimeout limits the end of a session after the drain timeout, including abandonWait. With disconnectTimeout and reportTimeout, Run
	// returns in less than the 10 s that WithDrainTimeout names.
	endTimeout = 5 * time.Second
	// handlerInterval is how often awaitHandlers looks for handlers that still run.
	handlerInterval = 100 * time.Millisecond
)

// drain ends the last session of a consumer.
func (c *Consumer) drain(s *session) error {
	c.setState(StateShuttingDown, nil)
	s.stop()
	c.setState(StateDrainingQueue, nil)
	return s.drain()
}

// drain ends a session without losing or repeating a message. It waits for handlers and copies, sends their acks, and cancels the
// consumer. The cancel makes the queue process the acks before the channel is closed. Messages are returned only after that,
// because the broker would deliver them to this consumer again.
func (s *session) drain() error {
	began := time.Now()
	s.stop()
	var early sync.WaitGroup
	if !s.awaitIdle(min(idleWait, s.settings.drain)) && !s.contract.SingleActiveConsumer && s.settings.prefetch <= maxLateSettlements {
		early.Go(s.cancelEarly) // beside awaitIdle, because the broker may not answer
	}
	lost := !s.awaitIdle(s.settings.drain - time.Since(began))
	var abandoned []string
	if lost {
		s.cancel(ErrDraining)
		if !s.awaitIdle(abandonWait) {
			abandoned = s.consumer.workers.unsettled()
		}
	}
	_ = s.withTimeout(min(closeTimeout, s.settings.drain+endTimeout-time.Since(began)), func() error {
		early.Wait()
		_ = s.returnUnsettled() // fails with the session
		s.acker.close()
		return s.closeChannel()
	})
	s.consumer.workers.current.CompareAndSwap(s, nil)
	s.cancel(ErrDraining)
	if len(abandoned) > 0 {
		return &DrainError{Abandoned: abandoned}
	}
	return nil
}

// awaitHandlers waits for the handlers of lost and previous sessions, which no drain waits for: the program may end when Run returns. It
// returns a *DrainError at the end of the drain timeout, which began at stopped.
func (c *Consumer) awaitHandlers(stopped time.Time) error {
	for {
		running := c.workers.unsettled()
		switch {
		case len(running) == 0:
			return nil
		case time.Since(stopped) >= c.settings.Load().drain:
			return &DrainError{Abandoned: running}
		}
		c.setState(StateDrainingQueue, nil) // also records progress
		time.Sleep(handlerInterval)
	}
}

// awaitIdle waits until no delivery is in progress. It returns false after limit.
func (s *session) awaitIdle(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	ticker := time.NewTicker(livenessTimeout / 4)
	defer ticker.Stop()
	for s.active.Load() > 0 {
		select {
		case <-s.idle:
		case <-ticker.C:
			s.consumer.status.recordProgress()
		case err := <-s.over: // later results are ignored
			s.invalidate(fmt.Errorf("%w: %w", ErrDeliveryLost, err))
		case <-timer.C:
			return false
		}
	}
	return true
}

// cancelEarly cancels the consumer while few handlers run, and returns the messages that were never started. If that fails, the session
// ends.
func (s *session) cancelEarly() {
	untouched, err := s.unsubscribe()
	if err != nil {
		return
	}
	for _, next := range untouched {
		s.settleAfterCancel(next.DeliveryTag, contract.VerbReturn)
	}
	for _, left := range s.takePending() {
		if err := s.settleNow(left.tag, left.verb); err != nil {
			return
		}
	}
}

// returnUnsettled sends pending acks and returns unsettled messages. It does not cancel a single active consumer with few messages: the
// next consumer would become active before this one has returned its messages.
func (s *session) returnUnsettled() error {
	if err := s.acker.flush(); err != nil {
		return err
	}
	if s.contract.SingleActiveConsumer && s.settings.prefetch <= maxLateSettlements {
		return s.acker.finish()
	}
	if err := s.ensureCancel(); err != nil {
		return err
	}
	if _, err := s.unsubscribe(); err != nil {
		return err
	}
	for _, left := range s.takePending() {
		if left.verb == contract.VerbRequeue { // counts as an attempt
			if err := s.settleNow(left.tag, left.verb); err != nil {
				return err
			}
		}
	}
	return s.acker.returnAll()
}
