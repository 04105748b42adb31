package consumer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

const (
	// connectTimeout limits connecting, and opening a channel.
	connectTimeout = 30 * time.Second
	// closeTimeout limits ending a subscription and closing a channel.
	closeTimeout = 10 * time.Second
	// disconnectTimeout limits closing connections. It is short, because nothing depends on the broker's answer.
	disconnectTimeout = 2 * time.Second
)

var errConnectTimeout = errors.New("the broker did not answer for 30s")

// Conn connects to a broker. It opens up to three connections when they are needed: one for consuming, one for copies of failed messages,
// and one for Publish. So a broker that blocks publishers still accepts acks, and Publish never delays a copy. All consumers of a process
// can share a Conn. If the broker does not answer a request about a queue, such as basic.consume, in time, or answers it with an internal
// error, the connection ends. The consumer of that queue then consumes on its own connection for ten minutes, and still publishes copies on
// the shared connection. It drains before it returns to the shared connection. It returns early if the broker refuses a connection as not
// allowed, for example because the user has too many.
type Conn struct {
	name      string
	prefetch  int // the default of its consumers; 0 is none
	hooks     []PublishHook
	transport transport.Transport

	consuming    sharedConnection
	copies       *publisher   // of failed messages
	applications *publisher   // for Publish
	refusedAt    atomic.Int64 // Unix time in ns when the broker last refused a connection as not allowed; see isIsolated

	mu    sync.Mutex
	users int
}

// ConnOption configures a Conn.
type ConnOption func(*connSettings)

type connSettings struct {
	name      string
	prefetch  int
	hooks     []PublishHook
	amqp      transport.AMQP
	transport transport.Transport
}

// WithName sets the connection name that the broker shows. The default is the name of the program, "@" and the name of the host.
func WithName(name string) ConnOption { return func(s *connSettings) { s.name = name } }

// WithDefaultPrefetch sets the prefetch of consumers without WithPrefetch, for example from a setting that is common to many queues.
// It is raised to the concurrency of the consumer, and does not apply under the strategy Requeue or to a single active consumer. The
// default, also for 0, is that of WithPrefetch.
func WithDefaultPrefetch(n int) ConnOption { return func(s *connSettings) { s.prefetch = n } }

// WithTLS sets the TLS configuration for URIs that begin with amqps. The default is made from the parameters of the URI, with the
// system's certificates.
func WithTLS(config *tls.Config) ConnOption { return func(s *connSettings) { s.amqp.TLS = config } }

// WithDialer sets the function that opens TCP connections. dial must return when ctx ends.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) ConnOption {
	return func(s *connSettings) { s.amqp.DialTCP = dial }
}

// PublishHook changes a message before Conn.Publish sends it, for example to add a trace context to its headers, which are never
// nil.
type PublishHook func(ctx context.Context, exchange, routingKey string, message *Publishing)

// WithPublishHook adds a hook for each message of Conn.Publish. It does not affect copies of failed messages, which keep their
// headers.
func WithPublishHook(hook PublishHook) ConnOption {
	return func(s *connSettings) { s.hooks = append(s.hooks, hook) }
}

// NewConn returns a Conn for a broker. It does not connect: Consumer.Run and Conn.Publish do. If credentials is nil, each connect
// fails.
func NewConn(credentials Credentials, options ...ConnOption) *Conn {
	s := &connSettings{name: clientName()}
	s.amqp.URI = func(context.Context) (string, error) {
		return "", errors.New("consumer: NewConn was given no credentials")
	}
	if credentials != nil {
		s.amqp.URI = credentials.URI
	}
	for _, option := range options {
		option(s)
	}
	if s.transport == nil {
		s.transport = &s.amqp
	}
	c := &Conn{name: s.name, prefetch: s.prefetch, hooks: s.hooks, transport: s.transport}
	consume := c.dial("consumes")
	c.consuming.connect = func(ctx context.Context) (transport.Connection, error) { return consume(ctx, func(bool) {}) }
	c.copies, c.applications = newPublisher(c.dial("publishes copies")), newPublisher(c.dial("publishes"))
	return c
}

func clientName() string {
	host, err := os.Hostname()
	if err != nil {
		return filepath.Base(os.Args[0])
	}
	return filepath.Base(os.Args[0]) + "@" + host
}

func (c *Conn) dial(purpose string) func(context.Context, func(bool)) (transport.Connection, error) {
	return func(ctx context.Context, blocked func(bool)) (transport.Connection, error) {
		connection, err := c.transport.Dial(ctx, c.name+" "+purpose, blocked)
		c.noteRefusal(err)
		return connection, err
	}
}

// use counts a consumer. The shared connections for consumers are closed when the last consumer calls release.
func (c *Conn) use() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock() // after the connections are closed, so that the next consumer gets none of them
		if c.users--; c.users == 0 {
			together(c.consuming.close, c.copies.close)
		}
	}
}

// Close closes the shared connections. Those for consumers are also closed when the last consumer has ended, so Close is needed only
// after Publish. A connection of one consumer is closed when its Run returns.
func (c *Conn) Close() {
	together(c.consuming.close, c.copies.close, c.applications.close)
}

// together calls functions at the same time, so that a broker that does not answer delays the caller only once.
func together(calls ...func()) {
	var running sync.WaitGroup
	for _, call := range calls {
		running.Go(call)
	}
	running.Wait()
}

// openInTime returns what open returns. If ctx ends first, openInTime returns its cause, and calls discard for what open returns later.
func openInTime[T any](ctx context.Context, open func() (T, error), discard func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	opened := make(chan result) // without a buffer, so that no result is lost in it
	go func() {
		value, err := open()
		select {
		case opened <- result{value, err}:
		case <-ctx.Done():
			if err == nil {
				discard(value)
			}
		}
	}()
	select {
	case r := <-opened:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// Publishing is a message to be published, as in amqp091-go.
type Publishing = amqp.Publishing

// Publish publishes a message and waits until the broker confirms it. The message is persistent unless its DeliveryMode is set. A
// handler calls Publish before it returns nil.
//
// Publish returns an *UnroutableError if the exchange does not exist or routes the message to no queue. It returns a
// *RefusedError if a queue is full, the user may not write to the exchange, the message is larger than the broker allows, the
// headers do not fit into a frame, or a name or property has more than 255 bytes. It returns an *UnknownOutcomeError if the channel
// was lost, or ctx ended, before the confirm arrived. After any other error the broker does not have the message.
func (c *Conn) Publish(ctx context.Context, exchange, routingKey string, message Publishing) error {
	headers := make(amqp.Table, len(message.Headers)+1)
	maps.Copy(headers, message.Headers)
	headers[contract.HeaderCopyID] = rand.Text()
	message.Headers = headers
	for _, hook := range c.hooks {
		hook(ctx, exchange, routingKey, &message)
	}
	if err := message.Headers.Validate(); err != nil {
		return fmt.Errorf("consumer: publish: %w", err)
	}
	if message.DeliveryMode == 0 {
		message.DeliveryMode = amqp.Persistent
	}
	return c.applications.publish(ctx, contract.Route{Exchange: exchange, RoutingKey: routingKey}, message, false)
}

// sharedConnection opens a connection when it is needed and shares it. All fields except connect may be zero.
type sharedConnection struct {
	connect func(context.Context) (transport.Connection, error)

	mu         sync.Mutex // held while connecting, for connectTimeout at most
	connection transport.Connection
}

// get returns the open connection, or opens one.
func (c *sharedConnection) get(ctx context.Context) (transport.Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection != nil && !c.connection.IsClosed() {
		return c.connection, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	connection, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.connection = connection
	return connection, nil
}

func (c *sharedConnection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection != nil {
		_ = c.connection.Close(time.Now().Add(disconnectTimeout))
		c.connection = nil
	}
}
