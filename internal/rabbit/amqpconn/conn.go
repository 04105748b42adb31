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
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

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
	l := &Conn{ID: newLinkID(), Opened: time.Now(), Refused: make(chan error, 1)}
	stop := func() bool { return true }
	connect := func(network, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: options.Timeout}
		line, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.Socket = &socket{Conn: line}
		stop = context.AfterFunc(ctx, l.CloseSocket)
		return l.Socket, line.SetDeadline(time.Now().Add(options.Timeout)) // the library takes it off when the handshake is done
	}
	errs, begun := brokererr.Errors{Username: options.Username, Password: options.Password, VHost: options.VHost}, time.Now()
	connection, err := amqp.DialConfig(options.URI.Scheme+"://"+options.URI.Host, amqp.Config{
		SASL:            []amqp.Authentication{&amqp.PlainAuth{Username: options.Username, Password: options.Password}},
		Vhost:           options.VHost,
		Heartbeat:       Heartbeat,
		TLSClientConfig: options.TLS.Clone(),
		Properties:      l.properties(options),
		Locale:          "en_US",
		Dial:            connect,
	})
	stopped := stop()
	if err != nil {
		if l.Socket != nil {
			_ = l.Socket.Close()
		}
		return nil, errs.OfHandshake(ctx, err, time.Since(begun) >= options.Timeout)
	}
	l.Connection = connection
	if !stopped { // the context ended in the very moment
		l.CloseSocket()
		return nil, errs.Unreachable(ctx.Err())
	}
	version, _ := l.Connection.Properties["version"].(string)
	cluster, _ := l.Connection.Properties["cluster_name"].(string)
	l.Version, l.Name = brokererr.Truncate(version, management.LongestVersion), brokererr.Truncate(cluster, management.LongestClusterName)
	l.Room = make(chan struct{}, min(ChannelLimit, int(l.Connection.Config.ChannelMax)))
	l.idle = make(chan *amqp.Channel, cap(l.Room))
	return l, nil
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

// socket is the TCP connection of a link.
type socket struct {
	net.Conn

	holding sync.Mutex // one at a time holds back what is written

	mu   sync.Mutex
	hold bool
	held []byte
}

// Write keeps what is written for later while it is held back.
func (s *socket) Write(bytes []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold {
		s.held = append(s.held, bytes...)
		return len(bytes), nil
	}
	return s.Conn.Write(bytes)
}

// Together sends all that is written meanwhile in one piece, so that it reaches the broker at the same time.
func (s *socket) Together(write func() error) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	s.mu.Lock()
	s.hold = true
	s.mu.Unlock()
	err := write()
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.hold, s.held = false, nil
	if len(held) == 0 {
		return err
	}
	_, sent := s.Conn.Write(held)
	return errors.Join(err, sent)
}

// CloseSocket cuts the line.
func (l *Conn) CloseSocket() { _ = l.Socket.Close() }

// Close says goodbye, and cuts the line if the broker does not answer in time.
func (l *Conn) Close(limit time.Duration) {
	_ = l.Connection.CloseDeadline(time.Now().Add(limit))
	l.CloseSocket()
}

// newLinkID is unlike that of any other link.
func newLinkID() string { return rand.Text()[:16] }
