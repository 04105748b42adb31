// Package rabbittest opens connections of package rabbit to real brokers, for the tests of that package and of the packages below it.
package rabbittest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// Each runs a test against every broker of the matrix, with its own vhost.
func Each(t *testing.T, test func(t *testing.T, vh *brokers.VHost)) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			test(t, broker.NewVHost(t))
		})
	}
}

// Within is how long an immediate change may take on a busy machine.
var Within = deadline.For(30 * time.Second)

// ConfigOf returns the configuration of an administrator, with an interval longer than any test.
func ConfigOf(vh *brokers.VHost) rabbit.Config {
	return rabbit.Config{
		AMQPURI: vh.Broker.AMQPURI, ManagementURI: vh.Broker.ManagementURI,
		Username: vh.Broker.Username, Password: vh.Broker.Password, VHost: vh.Name, ResyncInterval: time.Hour,
	}
}

// DeafConfigOf is ConfigOf for an administrator who receives no events, so that the snapshot contains only refreshed objects and the
// connection's own changes.
func DeafConfigOf(t *testing.T, vh *brokers.VHost) rabbit.Config {
	t.Helper()
	user := vh.Broker.NewUser(t, "administrator")
	vh.Grant(user, ".*", ".*", ".*")
	config := ConfigOf(vh)
	config.Username, config.Password = user.Username, user.Password
	return config
}

// Listener collects notices.
type Listener struct {
	mu      sync.Mutex
	notices []snapshot.Notice
}

// Hear adds a notice.
func (l *Listener) Hear(notice snapshot.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices = append(l.notices, notice)
}

// Heard returns the notices since the last call of Awaits.
func (l *Listener) Heard() []snapshot.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notices)
}

// Awaits waits for a notice about objects, and fails if it receives another one first. It ignores Health, and the fields about refreshes.
func (l *Listener) Awaits(t *testing.T, want snapshot.Notice) {
	t.Helper()
	NewWithT(t).Eventually(func() []snapshot.Notice {
		l.mu.Lock()
		defer l.mu.Unlock()
		heard := []snapshot.Notice{}
		for _, notice := range l.notices {
			if notice.Health, notice.Capabilities, notice.Current = false, false, false; !notice.Empty() {
				heard = append(heard, notice)
			}
		}
		return heard
	}).WithTimeout(Within).WithPolling(time.Millisecond).Should(Equal([]snapshot.Notice{want}))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices = nil
}

// AwaitsTogether waits for notices that are equal to want when merged: a fast receiver gets several changes one by one.
func (l *Listener) AwaitsTogether(t *testing.T, want snapshot.Notice) {
	t.Helper()
	NewWithT(t).Eventually(func() snapshot.Notice {
		l.mu.Lock()
		defer l.mu.Unlock()
		together := snapshot.Merge(l.notices)
		together.Health, together.Capabilities, together.Current = false, false, false
		return together
	}).WithTimeout(Within).WithPolling(time.Millisecond).Should(Equal(want))
}

// Connection is a connection with its parts.
type Connection struct {
	*rabbit.Connection
	rabbit.Parts
}

// Apply tries again while the broker is too busy to start a quorum queue, because it then closes the AMQP connection. The next attempt may
// find the connection closed.
func (c *Connection) Apply(ctx context.Context, changes topology.Topology) error {
	began, wasBusy := time.Now(), false
	for {
		err := c.Connection.Apply(ctx, changes)
		isBusy := errors.Is(err, brokererr.ErrQueueNotStarted)
		isClosed := wasBusy && errors.Is(err, brokererr.ErrUnreachable)
		if !isBusy && !isClosed || time.Since(began) > Within {
			return err
		}
		wasBusy = true
	}
}

// OpenWith is rabbit.OpenWith. The caller closes the connection.
func OpenWith(
	config rabbit.Config, logger logr.Logger, notify func(snapshot.Notice), timeouts timing.Timeouts,
) (*Connection, error) {
	connection, err := rabbit.OpenWith(config, logger, notify, timeouts)
	if err != nil {
		return nil, err
	}
	return &Connection{connection, connection.Parts()}, nil
}

// Opened opens a connection and closes it with the test.
func Opened(t *testing.T, config rabbit.Config, notify func(snapshot.Notice)) *Connection {
	t.Helper()
	return opened(t, config, notify, Unpaced())
}

func opened(t *testing.T, config rabbit.Config, notify func(snapshot.Notice), timeouts timing.Timeouts) *Connection {
	t.Helper()
	if notify == nil {
		notify = func(snapshot.Notice) {}
	}
	connection, err := OpenWith(config, testr.NewWithOptions(t, testr.Options{}), notify, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	return connection
}

// Connected opens a connection and waits until it is healthy.
func Connected(t *testing.T, config rabbit.Config, notify func(snapshot.Notice)) *Connection {
	t.Helper()
	connection := Opened(t, config, notify)
	IsConnected(t, connection)
	return connection
}

// IsConnected waits until a connection is healthy.
func IsConnected(t *testing.T, connection *Connection) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		health := connection.Health()
		g.Expect(health.Err).NotTo(HaveOccurred())
		g.Expect(health.Connected).To(BeTrue())
		g.Expect(health.SyncedAt).NotTo(BeZero())
	}).WithTimeout(Within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// Unpaced has no minimum time between refreshes.
func Unpaced() timing.Timeouts {
	quick := timing.Default
	quick.Pace = timing.Pace{}
	return quick
}

// ConnectedWith is Connected with other timeouts.
func ConnectedWith(t *testing.T, config rabbit.Config, timeouts timing.Timeouts) *Connection {
	t.Helper()
	connection := opened(t, config, nil, timeouts)
	IsConnected(t, connection)
	return connection
}

// Holds waits until a queue has so many messages ready.
func Holds(t *testing.T, vh *brokers.VHost, queue string, count int) {
	t.Helper()
	NewWithT(t).Eventually(vh.Ready).WithArguments(queue).WithTimeout(Within).Should(Equal(count), "messages of %q", queue)
}

// MustBe checks the reason and the text of an error.
func MustBe(t *testing.T, err, reason error, says ...string) {
	t.Helper()
	if !errors.Is(err, reason) {
		t.Fatalf("%v is not %q", err, reason)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// NamesOf lists the objects of a topology.
func NamesOf(t topology.Topology) vhost.Selection {
	names := vhost.Selection{}
	for _, exchange := range t.Exchanges {
		names.Exchanges = append(names.Exchanges, exchange.Name)
	}
	for _, queue := range t.Queues {
		names.Queues = append(names.Queues, queue.Name)
	}
	return names
}

// AwaitHealth waits until the health meets the expectations.
func AwaitHealth(t *testing.T, connection *Connection, wanted func(Gomega, rabbit.Health)) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) { wanted(g, connection.Health()) }).
		WithTimeout(Within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// IsWell expects that nothing is wrong.
func IsWell(g Gomega, health rabbit.Health) { g.Expect(health.Well()).To(BeTrue(), "%+v", health) }

// FailsWith returns the expectation of an error for this reason, with these texts.
func FailsWith(reason error, says ...string) func(Gomega, rabbit.Health) {
	return func(g Gomega, health rabbit.Health) {
		g.Expect(health.Err).To(MatchError(reason))
		for _, part := range says {
			g.Expect(health.Err).To(MatchError(ContainSubstring(part)))
		}
		g.Expect(health.FailingSince).NotTo(BeZero())
	}
}

// OneQueue is a topology of one quorum queue.
var OneQueue = topology.Topology{Queues: []topology.Queue{{Name: "q", Arguments: Quorum(nil)}}}

// SnapshotOptions are the options of cmp.Diff for two snapshots of a vhost.
var SnapshotOptions = cmp.Options{
	cmp.AllowUnexported(snapshot.Snapshot{}), cmpopts.IgnoreFields(snapshot.Snapshot{}, "Room", "UnderWay", "deadLetters", "alternates"),
}

// Current returns the snapshot, which a refresh in the background may replace.
func Current(connection *Connection) (current *snapshot.Snapshot) {
	connection.Observer.View(func(s *snapshot.Snapshot) { current = s })
	return current
}

// Seen returns the snapshot after a refresh.
func Seen(t *testing.T, connection *Connection) *snapshot.Snapshot {
	t.Helper()
	if err := connection.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return Current(connection)
}

// Fill declares objects of each kind in a vhost.
func Fill(vh *brokers.VHost) {
	vh.DeclareExchange(Odd, "headers", nil)
	vh.DeclareExchange("source", "topic", nil)
	vh.DeclareExchange("onward", "fanout", map[string]any{"alternate-exchange": "source"})
	vh.DeclareQueue(Odd, map[string]any{
		"x-queue-type": "quorum", "x-message-ttl": int64(60000), "x-single-active-consumer": true, "x-dead-letter-exchange": "",
	})
	vh.DeclareQueue("classic", nil)
	vh.DeclareQueue("stream", map[string]any{"x-queue-type": "stream", "x-max-length-bytes": int32(1 << 20)})
	vh.Bind(Odd, Odd, "", map[string]any{
		"x-match": "all", "number": int64(7), "negative": int16(-7), "truth": true, "fraction": 1.5, "text": "ü",
		"table": amqp.Table{"inner": amqp.Table{"list": []any{int64(1), "two", amqp.Table{"three": false}}}},
	})
	vh.Bind(Odd, Odd, "", map[string]any{"x-match": "any", "number": int64(8)})
	vh.Bind("source", "classic", "a.*", nil)
	vh.Bind("source", "classic", "b.*", nil)
	vh.Bind("amq.topic", "classic", "c", nil)
	vh.BindExchange("source", "onward", "#", nil)
	vh.Bind("onward", Odd, "", nil)
	vh.SetPolicy("limits", brokers.Policy{
		Pattern: "^gr.ße", ApplyTo: "queues", Priority: 3, Definition: map[string]any{"max-length": 10, "overflow": "reject-publish"},
	})
	vh.SetOperatorPolicy("ceiling", brokers.Policy{
		Pattern: ".*", ApplyTo: "queues", Definition: map[string]any{"message-ttl": 3600000},
	})
}

// Odd is a name that needs escaping.
const Odd = "größe/50% off + more.#"

// Hearing waits until events arrive and the vhost was refreshed since, so that no other refresh is due.
func Hearing(t *testing.T, connection *Connection) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		health := connection.Health()
		g.Expect(health.EventsReason).To(BeEmpty())
		g.Expect(health.EventsSince).NotTo(BeZero())
		g.Expect(health.SyncedAt).To(BeTemporally(">", health.EventsSince))
	}).WithTimeout(Within).WithPolling(5 * time.Millisecond).Should(Succeed())
	if err := connection.Refresh(t.Context()); err != nil { // another one may have begun when AMQP connected
		t.Fatal(err)
	}
}

// Quorum returns the arguments of a quorum queue, with further ones.
func Quorum(arguments vhost.Arguments) vhost.Arguments {
	all := vhost.Arguments{"x-queue-type": "quorum"}
	maps.Copy(all, arguments)
	return all
}

// Knowing returns Config.KnownOwners for a process with these owners.
func Knowing(owners ...string) func() func(string) bool {
	return func() func(string) bool { return func(owner string) bool { return slices.Contains(owners, owner) } }
}

// Holding opens a channel, on which do takes messages from a queue, until the test ends.
func Holding(t *testing.T, vh *brokers.VHost, do func(*amqp.Channel) error) {
	t.Helper()
	connection, err := vh.Connect("holding")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	if err == nil {
		err = do(channel)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// MustAgree fails if the snapshot differs from the broker.
func MustAgree(t *testing.T, connection *Connection) {
	t.Helper()
	written := Current(connection)
	if difference := cmp.Diff(Seen(t, connection), written, SnapshotOptions); difference != "" {
		t.Errorf("written through (+) differs from what the broker says (-):\n%s", difference)
	}
}
