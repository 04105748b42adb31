package consumer

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// connection returns the connection for the next session.
func (c *Consumer) connection() *sharedConnection {
	if c.isolated.Load() {
		return &c.own
	}
	return &c.conn.consuming
}

// withTimeout runs a request, and kills the connection if the broker does not answer in time. A queue that has lost its majority answers
// late, or with an internal error, which ends the connection. So from then on the consumer has its own connection: otherwise all consumers
// of the Conn would lose their messages again and again, and each time counts as a crash.
func (s *session) withTimeout(limit time.Duration, request func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stopLimit := context.AfterFunc(ctx, s.connection.Kill)
	err := request()
	if inTime := stopLimit(); inTime && !isInternalError(err) {
		return err
	}
	if s.consumer.isolated.CompareAndSwap(false, true) {
		s.settings.logger.Warn("A request about the queue ended the connection; the consumer uses its own connection from now on",
			"queue", s.contract.Queue, "error", err)
	}
	return err
}

func isInternalError(err error) bool {
	reply := new(amqp.Error)
	return errors.As(err, &reply) && reply.Code == amqp.InternalError
}
