package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AMQP connects to RabbitMQ with amqp091-go.
type AMQP struct {
	// URI returns the AMQP URI. Each Dial calls it.
	URI func(ctx context.Context) (string, error)
	// TLS is used for amqps; if nil, the parameters of the URI apply.
	TLS *tls.Config
	// DialTCP replaces net.Dialer; nil uses it.
	DialTCP func(ctx context.Context, network, address string) (net.Conn, error)
}

// heartbeat is the negotiated heartbeat timeout.
const heartbeat = 10 * time.Second

// withHeartbeat replaces the heartbeat in a URI, because idleTimeout depends on it.
func withHeartbeat(uri string) (string, error) {
	parsed, err := url.Parse(uri)
	if err != nil {
		// err contains the password.
		return "", errors.New("the URI of the broker is not valid: expected amqp://USER:PASSWORD@HOST:PORT/VHOST")
	}
	query := parsed.Query()
	query.Set("heartbeat", strconv.Itoa(int(heartbeat.Seconds())))
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

// Dial connects. If ctx ends before the connection is open, Dial kills it.
func (a *AMQP) Dial(ctx context.Context, name string, blocked func(bool)) (Connection, error) {
	uri, err := a.URI(ctx)
	if err != nil {
		return nil, err
	}
	if uri, err = withHeartbeat(uri); err != nil {
		return nil, err
	}
	parsed, err := amqp.ParseURI(uri)
	if err != nil {
		return nil, err
	}
	var guarded *guardedConn
	alarm := &alarm{notify: blocked}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	config := amqp.Config{Heartbeat: heartbeat, Properties: properties}
	config.Dial = func(string, string) (net.Conn, error) {
		line, stream, err := a.connect(ctx, parsed)
		if err != nil {
			return nil, err
		}
		guarded = guard(line, stream, alarm.set)
		context.AfterFunc(ctx, guarded.killUnlessOpen)
		return guarded, nil
	}
	// With amqps, amqp091-go would open TLS on the guardedConn, whose frames would then be TLS records.
	connection, err := amqp.DialConfig("amqp"+strings.TrimPrefix(uri, parsed.Scheme), config)
	if err != nil {
		if guarded != nil {
			guarded.kill()
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, err
	}
	if !guarded.open() {
		return nil, context.Cause(ctx)
	}
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		defer alarm.end()
		for range closed { // until the connection ends
			continue
		}
	}()
	return &amqpConnection{connection, guarded}, nil
}

// alarm forwards whether the broker blocks publishers, until the connection ends. It ignores a connection.blocked that the reading
// goroutine reads after that.
type alarm struct {
	notify func(blocked bool)

	mu    sync.Mutex
	ended bool
}

func (a *alarm) set(blocked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.notify(blocked)
	}
}

func (a *alarm) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.notify(false)
}

type amqpConnection struct {
	*amqp.Connection

	guarded *guardedConn
}

func (c *amqpConnection) ConsumingChannel(closed chan *amqp.Error, cancelled chan string) (ConsumingChannel, error) {
	channel, err := c.Channel()
	if err != nil {
		return nil, err
	}
	channel.NotifyClose(closed)
	channel.NotifyCancel(cancelled)
	return channel, nil
}

func (c *amqpConnection) PublishingChannel(closed chan *amqp.Error, returned chan amqp.Return) (PublishingChannel, error) {
	channel, err := c.Channel()
	if err != nil {
		return nil, err
	}
	channel.NotifyClose(closed)
	channel.NotifyReturn(returned)
	if err := channel.Confirm(false); err != nil {
		_ = channel.Close() // the broker may have closed it
		return nil, err
	}
	return publishingChannel{channel}, nil
}

func (c *amqpConnection) VirtualHost() string { return c.Config.Vhost }

func (c *amqpConnection) MaxFrame() int { return c.Config.FrameSize }

func (c *amqpConnection) Close(deadline time.Time) error {
	defer c.guarded.kill()
	return c.CloseDeadline(deadline)
}

func (c *amqpConnection) Kill() { c.guarded.kill() }

type publishingChannel struct{ *amqp.Channel }

func (c publishingChannel) Publish(exchange, key string, mandatory bool, message amqp.Publishing) (Confirmation, error) {
	confirmation, err := c.PublishWithDeferredConfirm(exchange, key, mandatory, false, message)
	if err != nil {
		return nil, err
	}
	return confirmation, nil
}

// idleTimeout is after how long a connection is considered dead if nothing could be read or written. The broker sends a heartbeat
// every 5 s.
const idleTimeout = 20 * time.Second

// guardedConn sets a deadline before each read and write. amqp091-go sets its own deadlines only after the first frame, so it
// does not notice a connection that stalls right after the handshake.
type guardedConn struct {
	net.Conn // the TLS connection, or line without TLS

	line   net.Conn // the TCP connection
	frames frames   // used only by the reading goroutine

	mu     sync.Mutex
	limit  time.Time // set by amqp091-go's CloseDeadline; zero if there is none
	opened bool
	killed bool
}

func guard(line, stream net.Conn, blocked func(bool)) *guardedConn {
	return &guardedConn{Conn: stream, line: line, frames: frames{blocked: blocked}}
}

func (c *guardedConn) Read(buffer []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(buffer)
	c.frames.read(buffer[:n])
	return n, err
}

func (c *guardedConn) Write(buffer []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(c.deadline()); err != nil {
		return 0, err
	}
	return c.Conn.Write(buffer)
}

func (c *guardedConn) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(idleTimeout)
	if !c.limit.IsZero() && c.limit.Before(deadline) {
		return c.limit
	}
	return deadline
}

// SetDeadline limits all later reads and writes.
func (c *guardedConn) SetDeadline(limit time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	if limit.IsZero() {
		limit = time.Now().Add(idleTimeout)
	}
	return c.Conn.SetDeadline(limit)
}

// SetReadDeadline does nothing, because Read sets a deadline itself.
func (c *guardedConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, because Write sets a deadline itself.
func (c *guardedConn) SetWriteDeadline(time.Time) error { return nil }

// Close closes the TCP connection. It does not send the close_notify of TLS, because that would wait for a peer that does not read.
func (c *guardedConn) Close() error { return c.line.Close() }

// open records the end of the handshake. It returns false if the connection was killed before.
func (c *guardedConn) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
	return !c.killed
}

func (c *guardedConn) killUnlessOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened {
		c.killed = true
		_ = c.Close()
	}
}

func (c *guardedConn) kill() { _ = c.Close() }
