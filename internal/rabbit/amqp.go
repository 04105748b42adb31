package rabbit

import (
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

	"github.com/warren-mq/warren/internal/vhost"
)

// What a connection says of itself: client properties that the management API shows.
const (
	product = "Warren"
	// ownerProperty says whose connection it is; see Config.Owner.
	ownerProperty = "warren_owner"
	// linkProperty tells an AMQP connection from all others.
	linkProperty = "warren_link"
)

const heartbeat = 10 * time.Second

// link is one AMQP connection with the channels that are open on it. Calls of the library take no context and wait for
// the broker for ever; kill makes all of them return.
type link struct {
	connection *amqp.Connection
	socket     *socket
	version    string // what the broker says of itself
	name       string // of its cluster, as the broker says
	id         string // what the link calls itself
	opened     time.Time
	overdue    atomic.Bool
	refused    chan error                    // it does not match the management API
	cluster    atomic.Pointer[vhost.Cluster] // whom it was found to match; nil before

	// matched and queue are the looking goroutine's own; see match.go.
	matched bool
	queue   string

	room chan struct{}      // has an entry for each open channel; full when no more may be open
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
	// Timeout holds for TCP, and again for TLS and the handshake of AMQP.
	Timeout time.Duration
}

// dial opens an AMQP connection.
func dial(ctx context.Context, options DialOptions) (*link, error) {
	l := &link{id: newLinkID(), opened: time.Now(), refused: make(chan error, 1)}
	stop := func() bool { return true }
	connect := func(network, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: options.Timeout}
		line, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.socket = &socket{Conn: line}
		stop = context.AfterFunc(ctx, l.kill)
		return l.socket, line.SetDeadline(time.Now().Add(options.Timeout)) // the library takes it off when the handshake is done
	}
	errs, begun := Errors{options.Username, options.Password, options.VHost}, time.Now()
	connection, err := amqp.DialConfig(options.URI.Scheme+"://"+options.URI.Host, amqp.Config{
		SASL:            []amqp.Authentication{&amqp.PlainAuth{Username: options.Username, Password: options.Password}},
		Vhost:           options.VHost,
		Heartbeat:       heartbeat,
		TLSClientConfig: options.TLS.Clone(),
		Properties:      l.properties(options),
		Locale:          "en_US",
		Dial:            connect,
	})
	stopped := stop()
	if err != nil {
		if l.socket != nil {
			_ = l.socket.Close()
		}
		return nil, errs.OfHandshake(ctx, err, time.Since(begun) >= options.Timeout)
	}
	l.connection = connection
	if !stopped { // the context ended in the very moment
		l.kill()
		return nil, errs.Unreachable(ctx.Err())
	}
	version, _ := l.connection.Properties["version"].(string)
	cluster, _ := l.connection.Properties["cluster_name"].(string)
	l.version, l.name = cutTo(version, longestVersion), cutTo(cluster, longestClusterName)
	l.room = make(chan struct{}, min(channelLimit, int(l.connection.Config.ChannelMax)))
	l.idle = make(chan *amqp.Channel, cap(l.room))
	return l, nil
}

// properties are what a link says of itself. Whoever looks at the connections of a broker finds Warren by them, and which
// BrokerConnection it is.
func (l *link) properties(options DialOptions) amqp.Table {
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version
	}
	return amqp.Table{
		"product": product, "version": version, "platform": "Go", "connection_name": "warren " + options.VHost,
		ownerProperty: options.Owner, linkProperty: l.id,
	}
}

// withChannel runs an operation on a channel of the pool.
func (l *link) withChannel(operation func(*amqp.Channel) error) error {
	channel, err := l.open()
	if err != nil {
		return err
	}
	defer l.put(channel)
	return operation(channel)
}

// open takes a channel that is idle, or opens one. Where no more may be open, it waits for one to become idle or closed.
func (l *link) open() (*amqp.Channel, error) {
	select {
	case channel := <-l.idle:
		return channel, nil
	default:
	}
	select {
	case channel := <-l.idle:
		return channel, nil
	case l.room <- struct{}{}:
		return l.openInRoom()
	}
}

// put gives a channel back to the pool; one that the broker closed is dropped.
func (l *link) put(channel *amqp.Channel) {
	if channel.IsClosed() {
		<-l.room
		return
	}
	l.idle <- channel
}

// alone runs an operation on a channel that nobody else uses, before or after. Where no more may be open, an idle one is
// closed for it.
func (l *link) alone(operation func(*amqp.Channel) error) error {
	select {
	case l.room <- struct{}{}:
	default:
		select {
		case l.room <- struct{}{}:
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
		<-l.room
	}()
	return operation(channel)
}

// openInRoom opens a channel for which there is room, and gives the room back if that fails.
func (l *link) openInRoom() (*amqp.Channel, error) {
	channel, err := l.connection.Channel()
	if err != nil {
		<-l.room
	}
	return channel, err
}

// at is the cluster that the link was found to lead to.
func (l *link) at() vhost.Cluster {
	if found := l.cluster.Load(); found != nil {
		return *found
	}
	return vhost.Cluster{}
}

// refuse has the link closed.
func (l *link) refuse(reason error) {
	select {
	case l.refused <- reason:
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

// together sends all that is written meanwhile in one piece, so that it reaches the broker at the same time.
func (s *socket) together(write func() error) error {
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

// kill cuts the line.
func (l *link) kill() { _ = l.socket.Close() }

// close says goodbye, and cuts the line if the broker does not answer in time.
func (l *link) close(limit time.Duration) {
	_ = l.connection.CloseDeadline(time.Now().Add(limit))
	l.kill()
}

// newLinkID is unlike that of any other link.
func newLinkID() string { return rand.Text()[:16] }
