package consumer

import (
	"context"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// isolation is how long a consumer uses its own connection after a request about its queue has cost the connection.
const isolation = 10 * time.Minute

// isIsolated reports whether the next session gets its own connection.
func (c *Consumer) isIsolated() bool {
	return time.Since(time.Unix(0, c.isolatedAt.Load())) < isolation
}

// connection returns the connection for the next session. The consumer has no other session.
func (c *Consumer) connection() *sharedConnection {
	if c.isIsolated() {
		return &c.own
	}
	c.own.close()
	return &c.conn.consuming
}

// shareAgain ends the isolation if the broker allows no further connection.
func (c *Consumer) shareAgain(err error) {
	if reply := new(amqp.Error); errors.As(err, &reply) && reply.Code == amqp.NotAllowed {
		c.isolatedAt.Store(0)
	}
}

// withTimeout runs a request, and kills the connection if the broker does not answer in time. A queue that has lost its majority answers
// late, or with an internal error, which ends the connection. The consumer then has its own connection for a while: otherwise all
// consumers of the Conn would lose their messages again and again, and each time counts as a crash.
func (s *session) withTimeout(limit time.Duration, request func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stopLimit := context.AfterFunc(ctx, s.connection.Kill)
	err := request()
	if inTime := stopLimit(); inTime && !s.isOwnFault(err) {
		return err
	}
	if c := s.consumer; !c.isIsolated() {
		s.settings.logger.Warn("A request about the queue ended the connection; the consumer uses its own connection for a while",
			"queue", s.contract.Queue, "duration", isolation, "error", err)
	}
	s.consumer.isolatedAt.Store(time.Now().UnixNano())
	return err
}

// isOwnFault reports whether the broker ended the connection because of the queue. amqp091-go returns the reason to every request in
// flight on the connection, and RabbitMQ names the queue in it. RabbitMQ replaces the end of a long reason by "...", even within the name.
func (s *session) isOwnFault(err error) bool {
	reply := new(amqp.Error)
	if !errors.As(err, &reply) || reply.Code != amqp.InternalError {
		return false
	}
	_, named, isNamed := strings.Cut(reply.Reason, "queue '")
	start, isCut := strings.CutSuffix(named, "...")
	return !isNamed || strings.HasPrefix(named, s.contract.Queue+"'") || isCut && strings.HasPrefix(s.contract.Queue, start)
}
