package rabbit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// each runs a test against every broker of the matrix, with its own vhost.
func each(t *testing.T, test func(t *testing.T, vh *brokers.VHost)) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			test(t, broker.NewVHost(t))
		})
	}
}

// within is how long an immediate change may take on a busy machine.
var within = deadline.For(30 * time.Second)

// configOf returns the configuration of an administrator, with an interval longer than any test.
func configOf(vh *brokers.VHost) Config {
	return Config{
		AMQPURI: vh.Broker.AMQPURI, ManagementURI: vh.Broker.ManagementURI,
		Username: vh.Broker.Username, Password: vh.Broker.Password, VHost: vh.Name, ResyncInterval: time.Hour,
	}
}

// deafConfigOf is configOf for an administrator who receives no events, so that the snapshot contains only refreshed objects and the
// connection's own changes.
func deafConfigOf(t *testing.T, vh *brokers.VHost) Config {
	t.Helper()
	user := vh.Broker.NewUser(t, "administrator")
	vh.Grant(user, ".*", ".*", ".*")
	config := configOf(vh)
	config.Username, config.Password = user.Username, user.Password
	return config
}

// listener collects notices.
type listener struct {
	mu      sync.Mutex
	notices []snapshot.Notice
}

func (l *listener) hear(notice snapshot.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices = append(l.notices, notice)
}

// awaits waits for a notice about objects, and fails if it receives another one first. It ignores Health, and the fields about refreshes.
func (l *listener) awaits(t *testing.T, want snapshot.Notice) {
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
	}).WithTimeout(within).WithPolling(time.Millisecond).Should(Equal([]snapshot.Notice{want}))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices = nil
}

// awaitsTogether waits for notices that are equal to want when merged: a fast receiver gets several changes one by one.
func (l *listener) awaitsTogether(t *testing.T, want snapshot.Notice) {
	t.Helper()
	NewWithT(t).Eventually(func() snapshot.Notice {
		l.mu.Lock()
		defer l.mu.Unlock()
		together := snapshot.Merge(l.notices)
		together.Health, together.Capabilities, together.Current = false, false, false
		return together
	}).WithTimeout(within).WithPolling(time.Millisecond).Should(Equal(want))
}

// opened opens a connection and closes it with the test.
func opened(t *testing.T, config Config, notify func(snapshot.Notice)) *Connection {
	t.Helper()
	if notify == nil {
		notify = func(snapshot.Notice) {}
	}
	connection, err := open(config, testr.NewWithOptions(t, testr.Options{}), notify, unpaced())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	return connection
}

// connected opens a connection and waits until it is healthy.
func connected(t *testing.T, config Config, notify func(snapshot.Notice)) *Connection {
	t.Helper()
	connection := opened(t, config, notify)
	isConnected(t, connection)
	return connection
}

func isConnected(t *testing.T, connection *Connection) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		health := connection.Health()
		g.Expect(health.Err).NotTo(HaveOccurred())
		g.Expect(health.Connected).To(BeTrue())
		g.Expect(health.SyncedAt).NotTo(BeZero())
	}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// deleteNow is DeleteEmpty on the cluster that the connection leads to.
func deleteNow(ctx context.Context, c *Connection, queues ...string) error {
	return c.DeleteEmpty(ctx, c.Health().Cluster.Key(), queues, nil)
}

// inTestAll skips a test in `make test`, which runs with -short, because it needs a private broker or many seconds.
func inTestAll(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
}

// unpaced has no minimum time between refreshes.
func unpaced() timing.Timeouts {
	quick := timing.Default
	quick.Pace = timing.Pace{}
	return quick
}

// impatient treats a fence as left behind as soon as a second refresh shows it.
func impatient() timing.Timeouts {
	quick := unpaced()
	quick.Leftover = 100 * time.Millisecond
	return quick
}

// connectedWith is connected with other timeouts.
func connectedWith(t *testing.T, config Config, timeouts timing.Timeouts) *Connection {
	t.Helper()
	connection, err := open(config, testr.NewWithOptions(t, testr.Options{}), func(snapshot.Notice) {}, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	isConnected(t, connection)
	return connection
}

// lasting has timeouts of an hour, so that a test that waits for one of them fails by its own limit.
func lasting() timing.Timeouts {
	slow := unpaced()
	slow.Dial, slow.Operation, slow.Request = time.Hour, time.Hour, time.Hour
	return slow
}

// holds waits until a queue has so many messages ready.
func holds(t *testing.T, vh *brokers.VHost, queue string, count int) {
	t.Helper()
	NewWithT(t).Eventually(vh.Ready).WithArguments(queue).WithTimeout(within).Should(Equal(count), "messages of %q", queue)
}

// mustBe checks the reason and the text of an error.
func mustBe(t *testing.T, err, reason error, says ...string) {
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

// namesOf lists the objects of a topology.
func namesOf(t topology.Topology) vhost.Selection {
	names := vhost.Selection{}
	for _, exchange := range t.Exchanges {
		names.Exchanges = append(names.Exchanges, exchange.Name)
	}
	for _, queue := range t.Queues {
		names.Queues = append(names.Queues, queue.Name)
	}
	return names
}

var discard = logr.Discard()
