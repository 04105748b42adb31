package brokermatch

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// DialSecond opens a second connection, and verifies that it leads to the cluster of the main one.
func (d Dialer) DialSecond(ctx context.Context, channels *amqpconn.Pool, cluster string) (*amqpconn.Conn, error) {
	l, err := amqpconn.Dial(ctx, d.Options)
	if err != nil {
		return nil, err
	}
	watchdog := time.AfterFunc(d.Timeouts.Operation, l.CloseSocket)
	defer watchdog.Stop()
	if err := d.verifySameCluster(ctx, channels, l, cluster); err != nil {
		l.CloseSocket()
		return nil, err
	}
	return l, nil
}

// verifySameCluster declares an exclusive queue on one connection and finds it from the other. If the user may not declare the
// queue, it compares the names of the clusters.
func (d Dialer) verifySameCluster(ctx context.Context, channels *amqpconn.Pool, l *amqpconn.Conn, cluster string) error {
	channel, err := l.Connection.Channel()
	if err != nil {
		return d.Errs.OfOperation(err)
	}
	defer func() { _ = channel.Close() }()
	name := management.MatchQueue + l.ID
	_, err = channel.QueueDeclare(name, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
	if err != nil && !errors.Is(d.Errs.OfOperation(err), brokererr.ErrAccessRefused) {
		return d.Errs.OfOperation(err)
	}
	declared := err == nil
	var main *amqpconn.Conn
	err = channels.Start(ctx, ctx, func(other *amqpconn.Conn) error {
		main = other
		if err := d.Errs.SameCluster(other.Cluster(), cluster); err != nil || !declared {
			return err
		}
		return other.WithChannel(func(channel *amqp.Channel) error {
			_, err := channel.QueueDeclarePassive(name, false, false, true, false, nil)
			return err
		})
	})
	switch {
	case declared && errors.Is(err, brokererr.ErrResourceLocked): // exclusive to another connection of the same broker
		if _, err := channel.QueueDelete(name, false, false, false); err != nil {
			return d.Errs.OfOperation(err)
		}
	case declared && errors.Is(err, brokererr.ErrNotFound), err == nil && main.Name != l.Name:
		return d.Errs.Fail(brokererr.ErrOtherCluster,
			"two AMQP connections lead to two brokers: use an address that leads to one cluster")
	case err != nil:
		return err
	}
	at := main.Cluster()
	l.MatchedCluster.Store(&at)
	return nil
}
