// Package amqpconn keeps AMQP connections and runs as many operations on their channels as the broker can take (limit.go).
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
	"github.com/warren-mq/warren/internal/vhost"
)

// What a connection says of itself: client properties that the management API shows.
const (
	Product = "Warren"
	// EventsProduct is the product of connections that hear events and change nothing.
	EventsProduct = "Warren events"
	// OwnerProperty says whose connection it is; see Config.Owner.
	OwnerProperty = "warren_owner"
	// LinkProperty tells an AMQP connection from all others.
	LinkProperty = "warren_link"
)

// Heartbeat is the interval of AMQP heartbeats.
const Heartbeat = 10 * time.Second

// Conn is one AMQP connection with the channels that are open on it. Calls of the library take no context and wait for
// the broker for ever; kill makes all of them return.
type Conn struct {
	Connection     *amqp.Connection
	Socket         *socket
	blocked        chan amqp.Blocking
	Version        string // what the broker says of itself
	Name           string // of its cluster, as the broker says
	ID             string // what the link calls itself
	Opened         time.Time
	Overdue        atomic.Bool
	Refused        chan error                    // it does not match the management API
	MatchedCluster atomic.Pointer[vhost.Cluster] // whom it was found to match; nil before

	// Matched and Queue are the refreshing goroutine's own; see match.go.
	Matched bool
	Queue   string

	Room chan struct{}      // has an entry for each open channel; full when no more may be open
	idle chan *amqp.Channel // open channels of the pool that no operation uses
}

// DialOptions say which broker to connect to, and as whom.
type DialOptions struct {
	URI *url.URL
	TLS *tls.Config

	Username, Password string
	VHost              string
	// Owner is told to the broker; see Config.Owner.
	Owner string
	// Product is what the client calls itself; Product if empty. Name is the name of the connection; "warren" with the vhost if empty.
	Product, Name string
	// Timeout holds for TCP, and again for TLS and the handshake of AMQP.
	Timeout time.Duration

	// LargestBody is the largest body of a message that is read, in bytes; others are discarded as they arrive. If it is zero, all bodies
	// are: a message is known by its properties, and can be put back by its number. See Dropped and Release.
	LargestBody int64
	// Pace is how fast the broker may send where bodies are discarded, for all connections that share it; no limit if nil.
	Pace *rate.Limiter
}

// Dial opens an AMQP connection.
func Dial(ctx context.Context, options DialOptions) (*Conn, error) {
	began := time.Now()
	l, err := dial(ctx, options)
	metrics.BrokerRequests.Observe(time.Since(began), "amqp", "connection.open", brokererr.Result(err))
	return l, err
}

// Timed calls a method of AMQP, such as queue.delete, and takes its time for the metrics.
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
	line, err := dialer.DialContext(ctx, "tcp", address(options.URI))
	if err != nil {
		return nil, l.whyFailed(ctx, errs, err, false)
	}
	// A broker that sends heartbeats in the handshake would renew a deadline of the socket.
	overdue := atomic.Bool{}
	watchdog := time.AfterFunc(options.Timeout, func() {
		overdue.Store(true)
		_ = line.Close()
	})
	stop := context.AfterFunc(ctx, func() { _ = line.Close() })
	err = l.handshake(ctx, line, options)
	watchdog.Stop()
	if !stop() { // the context has ended, perhaps in the very moment
		err = ctx.Err()
	}
	if err != nil {
		_ = line.Close()
		return nil, l.whyFailed(ctx, errs, err, overdue.Load())
	}
	version, _ := l.Connection.Properties["version"].(string)
	cluster, _ := l.Connection.Properties["cluster_name"].(string)
	l.Version, l.Name = brokererr.Truncate(version, management.LongestVersion), brokererr.Truncate(cluster, management.LongestClusterName)
	l.Room = make(chan struct{}, min(ChannelLimit, int(l.Connection.Config.ChannelMax)))
	l.idle = make(chan *amqp.Channel, cap(l.Room))
	return l, nil
}

// address is the host and the port of a URI.
func address(uri *url.URL) string {
	port := "5672"
	if uri.Scheme == "amqps" {
		port = "5671"
	}
	return net.JoinHostPort(uri.Hostname(), cmp.Or(uri.Port(), port))
}

// handshake opens TLS, if wanted, and AMQP on a TCP connection.
func (l *Conn) handshake(ctx context.Context, line net.Conn, options DialOptions) error {
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
	l.Socket = newSocket(line, secured, newProtocol(options.LargestBody, l.setBlocked), pace)
	var err error
	l.Connection, err = amqp.Open(l.Socket, amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: options.Username, Password: options.Password}},
		Vhost:      options.VHost,
		FrameSize:  UsualFrameMax,
		Heartbeat:  Heartbeat,
		Properties: l.properties(options),
		Locale:     "en_US",
	})
	return err
}

// whyFailed says why a connection was not opened. The library takes the end of the connection for a wrong password or a wrong vhost.
func (l *Conn) whyFailed(ctx context.Context, errs brokererr.Errors, err error, overdue bool) error {
	if l.Socket != nil {
		l.CloseSocket()
	}
	reply, told := errors.AsType[*amqp.Error](err)
	refusal := l.Refusal()
	switch {
	case ctx.Err() != nil:
		return errs.Unreachable(ctx.Err())
	case refusal != nil:
		return errs.Fail(brokererr.ErrUnreachable, "the AMQP connection was closed: %v", refusal)
	case overdue && (!told || !reply.Server):
		return errs.Fail(brokererr.ErrTimeout, "AMQP handshake")
	}
	return errs.OfDial(err)
}

// Refusal is why the connection was ended by this side, since the broker has sent what it must not; nil if it was not.
func (l *Conn) Refusal() error {
	if l.Socket == nil {
		return nil
	}
	return l.Socket.incoming.refused()
}

// Blocked sends whether the broker blocks the connection, each time that changes; of several changes, the latest. It is for one
// goroutine, and is never closed. NotifyBlocked of the library must not be called: see docs/upstream.
func (l *Conn) Blocked() <-chan amqp.Blocking { return l.blocked }

// setBlocked is called by the goroutine that reads.
func (l *Conn) setBlocked(now amqp.Blocking) {
	select {
	case <-l.blocked: // nobody has heard of the former
	default:
	}
	l.blocked <- now
}

// properties are what a link says of itself. Whoever looks at the connections of a broker finds Warren by them, and which
// BrokerConnection it is.
func (l *Conn) properties(options DialOptions) amqp.Table {
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version
	}
	return amqp.Table{
		"product": cmp.Or(options.Product, Product), "version": version, "platform": "Go",
		"connection_name": cmp.Or(options.Name, "warren "+options.VHost),
		OwnerProperty:     options.Owner, LinkProperty: l.ID,
	}
}

// WithChannel runs an operation on a channel of the pool.
func (l *Conn) WithChannel(operation func(*amqp.Channel) error) error {
	channel, err := l.open()
	if err != nil {
		return err
	}
	defer l.put(channel)
	return operation(channel)
}

// open takes a channel that is idle, or opens one. Where no more may be open, it waits for one to become idle or closed.
func (l *Conn) open() (*amqp.Channel, error) {
	select {
	case channel := <-l.idle:
		return channel, nil
	default:
	}
	select {
	case channel := <-l.idle:
		return channel, nil
	case l.Room <- struct{}{}:
		return l.openInRoom()
	}
}

// put gives a channel back to the pool; one that the broker closed is dropped.
func (l *Conn) put(channel *amqp.Channel) {
	if channel.IsClosed() {
		<-l.Room
		return
	}
	l.idle <- channel
}

// WithExclusiveChannel runs an operation on a channel that nobody else uses, before or after. Where no more may be open, an idle one is
// closed for it.
func (l *Conn) WithExclusiveChannel(operation func(*amqp.Channel) error) error {
	select {
	case l.Room <- struct{}{}:
	default:
		select {
		case l.Room <- struct{}{}:
		case channel := <-l.idle:
			_ = channel.Close()
		}
	}
	channel, err := l.openInRoom()
	if err != nil {
		return err
	}
	defer func() {
		_ = channel.Close()
		<-l.Room
	}()
	return operation(channel)
}

// openInRoom opens a channel for which there is room, and gives the room back if that fails.
func (l *Conn) openInRoom() (*amqp.Channel, error) {
	channel, err := l.Connection.Channel()
	if err != nil {
		<-l.Room
	}
	return channel, err
}

// Cluster is the cluster that the link was found to lead to.
func (l *Conn) Cluster() vhost.Cluster {
	if found := l.MatchedCluster.Load(); found != nil {
		return *found
	}
	return vhost.Cluster{}
}

// Refuse has the link closed.
func (l *Conn) Refuse(reason error) {
	select {
	case l.Refused <- reason:
	default:
	}
}

// CloseSocket cuts the line.
func (l *Conn) CloseSocket() { _ = l.Socket.Close() }

// Close says goodbye, and cuts the line if the broker does not answer in time. It returns in time whatever the broker does: the library
// waits for a broker that goes on sending.
func (l *Conn) Close(limit time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.Connection.CloseDeadline(time.Now().Add(limit))
	}()
	select {
	case <-closed:
	case <-time.After(limit):
	}
	l.CloseSocket()
}

// newLinkID is unlike that of any other link.
func newLinkID() string { return rand.Text()[:16] }
