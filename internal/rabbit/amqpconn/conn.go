package amqpconn

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"runtime/debug"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/vhost"
)

// Client properties of a connection, which the management API shows.
const (
	Product = "Warren"
	// EventsProduct is the product of connections that receive events and change nothing.
	EventsProduct = "Warren events"
	// OwnerProperty is the property with Config.Owner.
	OwnerProperty = "warren_owner"
	// LinkProperty is the property with the unique ID of a connection.
	LinkProperty = "warren_link"
)

// Heartbeat is the interval of AMQP heartbeats.
const Heartbeat = 10 * time.Second

// Conn is one AMQP connection with its open channels. Calls of the AMQP library take no context, and may wait for the broker forever.
// CloseSocket makes all of these calls return.
type Conn struct {
	Connection     *amqp.Connection
	Socket         *socket
	blocked        chan amqp.Blocking
	Version        string // of the broker, as it reports it
	Name           string // of the broker's cluster, as the broker reports it
	ID             string // value of LinkProperty
	Opened         time.Time
	Overdue        atomic.Bool                   // an operation had no answer in time
	Refused        chan error                    // see Refuse
	MatchedCluster atomic.Pointer[vhost.Cluster] // the cluster that the connection leads to; nil until it is known

	// Only the goroutine that refreshes the vhost uses Matched and Queue. Matched: the connection and the management API lead to one
	// broker. Queue is the match queue that proves it.
	Matched bool
	Queue   string

	ChannelSlots chan struct{}      // has an entry for each open channel; full when no more may be open
	idle         chan *amqp.Channel // open channels of the pool that no operation uses
}

// DialOptions are the address, the user and the limits of a connection.
type DialOptions struct {
	URI *url.URL
	TLS *tls.Config

	Username, Password string
	VHost              string
	// Owner is the value of OwnerProperty; see Config.Owner.
	Owner string
	// Product is the value of the client property product; the constant Product if empty. Name is the name of the connection; "warren" and
	// the vhost if empty.
	Product, Name string
	// Timeout limits the TCP connect. The same limit applies again to TLS and the AMQP handshake together.
	Timeout time.Duration

	// LargestBody is the largest body of a message that is retained, in bytes; larger ones are discarded when they arrive. If it is zero,
	// all bodies are discarded: a caller can read the properties of a message, and return it to its queue. See Dropped and Release.
	LargestBody int64
	// Pace limits how fast the broker may send if LargestBody is zero, for all connections that share it; no limit if nil.
	Pace *rate.Limiter
}

// Dial opens an AMQP connection. An error wraps a reason of package brokererr.
func Dial(ctx context.Context, options DialOptions) (*Conn, error) {
	began := time.Now()
	l, err := dial(ctx, options)
	metrics.BrokerRequests.Observe(time.Since(began), "amqp", "connection.open", brokererr.Result(err))
	return l, err
}

// Timed calls a method of AMQP, such as queue.delete, and observes its duration and outcome in metrics.
func Timed(method string, call func() error) error {
	began := time.Now()
	err := call()
	result := err
	if err != nil {
		result = brokererr.Errors{}.OfOperation(err)
	}
	metrics.BrokerRequests.Observe(time.Since(began), "amqp", method, brokererr.Result(result))
	return err
}

func dial(ctx context.Context, options DialOptions) (*Conn, error) {
	l := &Conn{ID: newLinkID(), Opened: time.Now(), Refused: make(chan error, 1), blocked: make(chan amqp.Blocking, 1)}
	errs := brokererr.Errors{Username: options.Username, Password: options.Password, VHost: options.VHost}
	dialer := net.Dialer{Timeout: options.Timeout}
	line, err := dialer.DialContext(ctx, "tcp", management.EndpointOf(options.URI.String()))
	if err != nil {
		return nil, l.whyFailed(ctx, errs, err, false)
	}
	// A deadline of the socket does not suffice: a broker that sends heartbeats during the handshake would extend it.
	overdue := atomic.Bool{}
	watchdog := time.AfterFunc(options.Timeout, func() {
		overdue.Store(true)
		_ = line.Close()
	})
	stop := context.AfterFunc(ctx, func() { _ = line.Close() })
	err = l.handshake(ctx, line, options)
	watchdog.Stop()
	if !stop() { // the context has ended, perhaps just after the handshake
		err = ctx.Err()
	}
	if err != nil {
		_ = line.Close()
		return nil, l.whyFailed(ctx, errs, err, overdue.Load())
	}
	version, _ := l.Connection.Properties["version"].(string)
	cluster, _ := l.Connection.Properties["cluster_name"].(string)
	l.Version, l.Name = text.Truncate(version, management.LongestVersion), text.Truncate(cluster, management.LongestClusterName)
	l.ChannelSlots = make(chan struct{}, min(ChannelLimit, int(l.Connection.Config.ChannelMax)))
	l.idle = make(chan *amqp.Channel, cap(l.ChannelSlots))
	return l, nil
}

// handshake opens TLS, if the URI requires it, and AMQP on a TCP connection.
func (c *Conn) handshake(ctx context.Context, line net.Conn, options DialOptions) error {
	secured, pace := line, options.Pace
	if options.URI.Scheme == "amqps" {
		config := options.TLS.Clone()
		config.ServerName = cmp.Or(config.ServerName, options.URI.Hostname())
		client := tls.Client(line, config)
		if err := client.HandshakeContext(ctx); err != nil {
			return err
		}
		secured = client
	}
	if options.LargestBody > 0 {
		pace = nil
	}
	c.Socket = newSocket(line, secured, newProtocol(options.LargestBody, c.setBlocked), pace)
	var err error
	c.Connection, err = amqp.Open(c.Socket, amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: options.Username, Password: options.Password}},
		Vhost:      options.VHost,
		FrameSize:  UsualFrameMax,
		Heartbeat:  Heartbeat,
		Properties: c.properties(options),
		Locale:     "en_US",
	})
	return err
}

// whyFailed returns the reason why a connection was not opened. The AMQP library reports a closed connection as a wrong password or a wrong
// vhost.
func (c *Conn) whyFailed(ctx context.Context, errs brokererr.Errors, err error, overdue bool) error {
	if c.Socket != nil {
		c.CloseSocket()
	}
	reply, isReply := errors.AsType[*amqp.Error](err)
	refusal := c.Refusal()
	switch {
	case ctx.Err() != nil:
		return errs.Unreachable(ctx.Err())
	case refusal != nil:
		return errs.Fail(brokererr.ErrUnreachable, "the AMQP connection was closed: %v", refusal)
	case overdue && (!isReply || !reply.Server):
		return errs.Fail(brokererr.ErrTimeout, "AMQP handshake")
	}
	return errs.OfDial(err)
}

// Undecodable reports whether the AMQP library has ended a connection because it does not decode a frame. It refuses headers that are
// nested deeper than 32 levels, and tables of more than 8192 elements.
func Undecodable(reason *amqp.Error) bool {
	return !reason.Server && reason.Reason == amqp.ErrSyntax.Error()
}

// Refusal returns why this side ended the connection, if the broker violated the protocol or a limit; nil otherwise.
func (c *Conn) Refusal() error {
	if c.Socket == nil {
		return nil
	}
	return c.Socket.incoming.refused()
}

// Blocked returns a channel that receives each time the broker blocks or unblocks the connection; of several changes only the latest. One
// goroutine may receive from it. It is never closed. Do not call NotifyBlocked of the library; see docs/upstream.
func (c *Conn) Blocked() <-chan amqp.Blocking { return c.blocked }

// setBlocked replaces a change that no goroutine has received yet. Only the goroutine that reads the socket calls it.
func (c *Conn) setBlocked(now amqp.Blocking) {
	select {
	case <-c.blocked:
	default:
	}
	c.blocked <- now
}

// properties are the client properties of the connection. They show users of the management UI that the connection belongs to Warren, and
// to which BrokerConnection.
func (c *Conn) properties(options DialOptions) amqp.Table {
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version
	}
	return amqp.Table{
		"product": cmp.Or(options.Product, Product), "version": version, "platform": "Go",
		"connection_name": cmp.Or(options.Name, "warren "+options.VHost),
		OwnerProperty:     options.Owner, LinkProperty: c.ID,
	}
}

// WithChannel runs an operation on a channel that is open already, or on a new one. It keeps the channel open for later operations.
func (c *Conn) WithChannel(operation func(*amqp.Channel) error) error {
	channel, err := c.open()
	if err != nil {
		return err
	}
	defer c.put(channel)
	return operation(channel)
}

// open returns an idle channel, or opens one. If no more channels may be open, it waits until a channel is idle or closed.
func (c *Conn) open() (*amqp.Channel, error) {
	select {
	case channel := <-c.idle:
		return channel, nil
	default:
	}
	select {
	case channel := <-c.idle:
		return channel, nil
	case c.ChannelSlots <- struct{}{}:
		return c.openInSlot()
	}
}

// put returns a channel to the pool, unless the broker has closed it.
func (c *Conn) put(channel *amqp.Channel) {
	if channel.IsClosed() {
		<-c.ChannelSlots
		return
	}
	c.idle <- channel
}

// WithExclusiveChannel runs an operation on a new channel, and closes the channel after that. If no more channels may be open, it closes
// an idle one first.
func (c *Conn) WithExclusiveChannel(operation func(*amqp.Channel) error) error {
	select {
	case c.ChannelSlots <- struct{}{}:
	default:
		select {
		case c.ChannelSlots <- struct{}{}:
		case channel := <-c.idle:
			_ = channel.Close()
		}
	}
	channel, err := c.openInSlot()
	if err != nil {
		return err
	}
	defer func() {
		_ = channel.Close()
		<-c.ChannelSlots
	}()
	return operation(channel)
}

// openInSlot opens a channel after its entry was added to ChannelSlots, and removes the entry if that fails.
func (c *Conn) openInSlot() (*amqp.Channel, error) {
	channel, err := c.Connection.Channel()
	if err != nil {
		<-c.ChannelSlots
	}
	return channel, err
}

// Cluster returns the cluster that the connection leads to; the zero Cluster until that is known.
func (c *Conn) Cluster() vhost.Cluster {
	if found := c.MatchedCluster.Load(); found != nil {
		return *found
	}
	return vhost.Cluster{}
}

// Refuse sends a reason to Refused, unless one is there already. The goroutine that receives it closes the connection.
func (c *Conn) Refuse(reason error) {
	select {
	case c.Refused <- reason:
	default:
	}
}

// CloseSocket closes the TCP connection without the handshakes of AMQP and TLS.
func (c *Conn) CloseSocket() { _ = c.Socket.Close() }

// Cut closes the socket because an operation had no answer in time.
func (c *Conn) Cut() {
	c.Overdue.Store(true)
	c.CloseSocket()
}

// Classify returns an error of an operation on the connection with its reason.
func (c *Conn) Classify(errs brokererr.Errors, err error) error {
	own, classified := errors.AsType[*brokererr.Failure](err)
	switch {
	case err == nil:
		return nil
	case classified:
		return own
	case c.Overdue.Load():
		return errs.Fail(brokererr.ErrTimeout, "AMQP operation")
	}
	return errs.OfOperation(err)
}

// Close closes the connection as AMQP requires, and closes the socket if the broker does not answer in time. It returns in time whatever
// the broker does. The AMQP library alone would wait for a broker that continues to send.
func (c *Conn) Close(limit time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = c.Connection.CloseDeadline(time.Now().Add(limit))
	}()
	select {
	case <-closed:
	case <-time.After(limit):
	}
	c.CloseSocket()
}

func newLinkID() string { return rand.Text()[:16] }
