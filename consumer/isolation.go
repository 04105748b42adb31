package consumer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// isolation is how long a consumer uses its own connection after a request about its queue has cost the connection, and for how long no
// consumer of the Conn does after the broker has refused a connection.
const isolation = 10 * time.Minute

// errIsolationOver ends a session on the consumer's own connection, so that the next one uses that of the Conn.
var errIsolationOver = errors.New("the consumer returns to the connection of all consumers")

// isIsolated reports whether the next session gets its own connection. If the broker has refused a connection, no consumer does,
// because others may need the connections that the broker allows.
func (c *Consumer) isIsolated() bool {
	return isRecent(&c.isolatedAt) && !isRecent(&c.conn.refusedAt)
}

func isRecent(at *atomic.Int64) bool { return time.Since(time.Unix(0, at.Load())) < isolation }

// connection returns the connection for the next session. The consumer has no other session.
func (c *Consumer) connection() (connection *sharedConnection, isOwn bool) {
	if c.isIsolated() {
		return &c.own, true
	}
	c.own.close()
	return &c.conn.consuming, false
}

// noteRefusal records that the broker has refused a connection, for example because the user has too many.
func (c *Conn) noteRefusal(err error) {
	if reply := new(amqp.Error); errors.As(err, &reply) && reply.Code == amqp.NotAllowed {
		c.refusedAt.Store(time.Now().UnixNano())
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
	c := s.consumer
	before := c.isIsolated()
	c.isolatedAt.Store(time.Now().UnixNano())
	if !before && c.isIsolated() {
		s.settings.logger.Warn("A request about the queue ended the connection; the consumer uses its own connection for a while",
			"queue", s.contract.Queue, "duration", isolation, "error", err)
	}
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
