package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// timing is how long things may take.
type timing struct {
	dial      time.Duration // TCP; and again TLS with the handshake of AMQP
	operation time.Duration // one declaration or binding
	request   time.Duration // one request to the management API, with its answer
	goodbye   time.Duration // closing in good order
	first     time.Duration // the first wait before another attempt
	limit     time.Duration // the longest
	settle    time.Duration // from closing a fence until all publishers know
	stray     time.Duration // how long a fence of another process must have been seen to count as left behind

	match      time.Duration // until a queue that is declared shows in the management API, on each node
	statistics time.Duration // until a connection that is opened does
}

var usual = timing{
	dial: 10 * time.Second, operation: 10 * time.Second, request: 30 * time.Second, goodbye: time.Second,
	first: 250 * time.Millisecond, limit: 30 * time.Second, settle: 400 * time.Millisecond, stray: 20 * time.Second,
	match: 3 * time.Second, statistics: 15 * time.Second,
}

// steady is how long a connection must last before it counts as a success: one that is refused as soon as it stands is
// not to be tried again and again without a pause.
const steady = 5 * time.Second

// Connection is one vhost of a broker: observed, changed, and kept connected until Close. Its methods may be called at
// the same time.
type Connection struct {
	config     Config
	errs       brokererr.Errors
	to         endpoints
	timing     timing
	log        logr.Logger
	management *management.Client // for looking
	writing    *management.Client // for deleting, with what that takes of reading
	channels   *amqpconn.Pool
	deleter    *safedelete.Deleter
	store      snapshot.Store
	members    members
	state      state
	notices    *notices
	candidate  candidate
	survey     survey

	strange atomic.Bool            // the broker must be asked anew who it is
	contact *management.BrokerInfo // the looking goroutine's own

	waitingMu sync.Mutex
	waiting   []chan<- error // for the next look
	wake      chan struct{}

	done    context.Context // it is the life of the connection
	end     context.CancelFunc
	running sync.WaitGroup
}

// Open begins to connect and to look, and returns at once; Health tells how it goes. Its only error is that of
// Config.Validate. notify is called with what changed, from one goroutine, one call at a time; it must not call Close.
func Open(config Config, logger logr.Logger, notify func(snapshot.Notice)) (*Connection, error) {
	return open(config, logger, notify, usual)
}

func open(config Config, logger logr.Logger, notify func(snapshot.Notice), timing timing) (*Connection, error) {
	to, err := config.Parse()
	if err != nil {
		return nil, err
	}
	if config.Limits == nil {
		config.Limits = management.NewLimits(0)
	}
	c := &Connection{
		config: config, errs: config.errors(), to: to, timing: timing, log: logger,
		management: management.NewClient(config.ManagementOptions(to, timing.request, 1)),
		writing:    management.NewClient(config.ManagementOptions(to, timing.request, safedelete.RequestLimit)),
		candidate:  candidate{news: make(chan struct{}, 1)}, survey: survey{places: management.NewPlaces(1)},
		channels: amqpconn.NewPool(config.errors(), timing.operation), notices: newNotices(notify), wake: make(chan struct{}, 1),
	}
	c.deleter = safedelete.New(safedelete.Settings{
		VHost: config.VHost, Owner: config.Owner, User: config.Username, Errors: c.errs, Log: logger,
		Times: safedelete.Times{Settle: timing.settle, Stray: timing.stray, Operation: timing.operation, Close: timing.goodbye},
	}, deletionsOf{c}, c.writing)
	c.done, c.end = context.WithCancel(context.Background())
	c.strange.Store(true)
	c.running.Go(func() { c.notices.run(c.done) })
	c.running.Go(c.connecting)
	c.running.Go(c.looking)
	return c, nil
}

// patience is how long Close waits for deletions to undo what they have begun. What they don't manage is left to the next
// connection (see strays.go).
const patience = 4 * time.Second

// Close ends everything, and returns when it has ended. It may be called more than once.
func (c *Connection) Close() {
	c.deleter.Stop(patience)
	c.end()
	c.running.Wait()
	c.channels.Running.Wait()
	c.deleter.Close()
	c.management.Close()
	c.writing.Close()
	c.store.Close()
}

// Health tells how the connection fares.
func (c *Connection) Health() Health { return c.state.read() }

// VHost is the vhost that the connection leads to.
func (c *Connection) VHost() string { return c.config.VHost }

// Owner is Config.Owner.
func (c *Connection) Owner() string { return c.config.Owner }

// Observe returns what the vhost has of the named objects, out of the snapshot in memory; false before the first look.
// The exchanges that can be reached from names.FollowFrom are among the exchanges, with their bindings.
func (c *Connection) Observe(names vhost.Selection) (vhost.Observed, bool) {
	observed, looked := c.store.Observe(names)
	c.members.observe(names, &observed)
	return observed, looked
}

// Refresh looks at the vhost now. The look begins after the call, and serves all who wait for it.
func (c *Connection) Refresh(ctx context.Context) error {
	result := make(chan error, 1)
	c.waitingMu.Lock()
	c.waiting = append(c.waiting, result)
	c.lookNow()
	c.waitingMu.Unlock()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for a look at vhost %q: %w", c.config.VHost, ctx.Err())
	case <-c.done.Done():
		return brokererr.ErrClosed
	}
}

// LookNow asks for a look that begins after the call, and does not wait for it.
func (c *Connection) LookNow() { c.lookNow() }

func (c *Connection) lookNow() {
	select {
	case c.wake <- struct{}{}:
	default: // a look is about to begin
	}
}

// takeWaiting returns those who wait for the look that begins now. What woke us up before has its look with that.
func (c *Connection) takeWaiting() []chan<- error {
	c.waitingMu.Lock()
	defer c.waitingMu.Unlock()
	select {
	case <-c.wake:
	default:
	}
	waiting := c.waiting
	c.waiting = nil
	return waiting
}

// looking is the goroutine that looks at the vhost, with one request to the management API at a time.
func (c *Connection) looking() {
	retry := backoff{first: c.timing.first, limit: min(c.timing.limit, c.config.ResyncInterval)}
	for c.done.Err() == nil {
		waiting := c.takeWaiting()
		err := c.look(c.done)
		for _, result := range waiting {
			result <- err
		}
		wait := jitter(c.config.ResyncInterval)
		if err == nil {
			retry.reset()
			c.readMembers(c.done)
		} else {
			wait = retry.wait()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.candidate.news:
		case <-c.done.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// acquaint asks what tags the user has; and who the broker is, and what it lets the user do: after each (re)connect and each
// failure, when the tags have changed, and while its nodes are being upgraded, for the last of them may do that without any of
// our connections being closed.
func (c *Connection) acquaint(ctx context.Context) error {
	if !c.strange.Swap(false) && !c.contact.Upgrading {
		tags, err := c.management.Whoami(ctx)
		if err != nil || slices.Equal(tags, c.contact.Tags) {
			return err
		}
	}
	met, err := c.management.Probe(ctx)
	if err == nil {
		c.meet(met)
	}
	return err
}

// look reads the vhost, and before it who the broker is.
func (c *Connection) look(ctx context.Context) error {
	began := time.Now()
	err := c.lookAndReplace(ctx)
	if err != nil {
		c.strange.Store(true) // even when closing: another look may still begin
	}
	if ctx.Err() != nil {
		return brokererr.ErrClosed
	}
	c.report(func(s *state) {
		s.management = err
		if errors.Is(err, brokererr.ErrClusterMismatch) { // which has its own place, for it holds until a link matches
			s.management = nil
		}
		if err == nil {
			s.health.SyncedAt = began
		}
	})
	return err
}

func (c *Connection) lookAndReplace(ctx context.Context) error {
	if err := c.acquaint(ctx); err != nil {
		return err
	}
	if err := c.matchNew(ctx); err != nil {
		return err
	}
	if err := c.checkMajority(ctx); err != nil {
		return err
	}
	again, err := c.readAndReplace(ctx)
	if err == nil && again {
		_, err = c.readAndReplace(ctx)
	}
	if err != nil {
		return err
	}
	// That the connections cannot be read says nothing of the vhost; a removal reads them again, and fails then.
	_ = c.surveyOften(ctx)
	c.deleter.ClearLeftovers()
	return nil
}

// readAndReplace says whether the vhost is to be read again, for something is missing that was there before.
func (c *Connection) readAndReplace(ctx context.Context) (again bool, err error) {
	fresh, etag, err := c.readOf(ctx)
	if err != nil {
		c.store.End()
		if errors.Is(err, management.ErrNotModified) {
			err = nil
		}
		return false, err
	}
	fresh.UnderWay = c.deleter.Standing()
	changed, again := c.store.Replace(fresh, etag)
	c.notices.add(changed)
	return again, nil
}

// readOf reads the vhost and sees to it that what it read is of the cluster that was met, and of the broker that AMQP leads
// to: another one may have answered, and its objects must not pass for those of the first.
func (c *Connection) readOf(ctx context.Context) (*snapshot.Snapshot, string, error) {
	fresh, etag, err := c.read(ctx, c.store.Begin())
	same := errors.Is(err, management.ErrNotModified)
	if err != nil && !same {
		return nil, "", err
	}
	if another := c.another(ctx, same); another != nil {
		fresh.Free()
		return nil, "", another
	}
	if fresh != nil {
		fresh.Cluster = c.contact.Identity.Key()
	}
	return fresh, etag, err
}

// another says whether another broker may have answered than the one that was met. same says that the answer had no news.
func (c *Connection) another(ctx context.Context, same bool) error {
	moved := c.management.TookNewConnection()
	if moved {
		now, _, err := c.management.Identity(ctx)
		if err != nil {
			return err
		}
		if !now.Continues(c.contact.Identity) {
			return c.errs.Fail(brokererr.ErrUnreachable, "cluster %q answered in the place of %q", now.Name, c.contact.Identity.Name)
		}
	}
	if same && !moved {
		return nil
	}
	return c.matchAgain(ctx, moved)
}

// meet takes note of who the broker is. If it is not surely the one that it was, the link must be matched anew.
func (c *Connection) meet(met *management.BrokerInfo) {
	known := c.contact
	c.contact = met
	c.store.Forget() // it may be another cluster
	c.members.expire(met.Nodes)
	if l := c.candidate.current(); l != nil && l.Matched {
		if l.Matched = met.Identity.Continues(known.Identity); l.Matched {
			l.MatchedCluster.Store(&met.Identity)
		} else {
			c.channels.Set(nil, c.errs.Fail(brokererr.ErrUnreachable, "cluster %q answered in the place of %q",
				met.Identity.Name, known.Identity.Name))
		}
	}
	c.report(func(s *state) {
		s.nodeVersion, s.health.ClusterName, s.health.Capabilities = met.Version, met.Identity.Name, met.Capabilities
		s.health.Cluster = met.Identity
	})
}

// read takes the one request where the user may, and the listings otherwise. An administrator who is one no longer is
// noticed by the refusal.
func (c *Connection) read(ctx context.Context, etag string) (*snapshot.Snapshot, string, error) {
	if c.contact.Capabilities.Definitions {
		fresh, etag, err := snapshot.ReadDefinitions(ctx, c.management, etag, c.contact.Builtin)
		if !errors.Is(err, brokererr.ErrAccessRefused) {
			return fresh, etag, err
		}
		c.contact.Capabilities.Definitions = false
		c.meet(c.contact)
	}
	fresh, err := snapshot.ReadListings(ctx, c.management, c.contact.Builtin)
	return fresh, "", err
}

// connecting is the goroutine that keeps the AMQP connection.
func (c *Connection) connecting() {
	retry := backoff{first: c.timing.first, limit: c.timing.limit}
	for first := true; ; first = false {
		begun := time.Now()
		l, err := amqpconn.Dial(c.done, c.config.dialOptions(c.to, c.timing.dial))
		if err == nil {
			err = c.connected(l, first)
			if time.Since(begun) > steady {
				retry.reset()
			}
		}
		if !errors.Is(err, brokererr.ErrClusterMismatch) { // which says so itself
			err = fmt.Errorf("AMQP: %w", err)
		}
		if c.done.Err() != nil {
			c.channels.Set(nil, brokererr.ErrClosed)
			return
		}
		c.channels.Set(nil, err)
		c.report(func(s *state) {
			s.amqp, s.health.Connected, s.health.Matched = err, false, false
			if errors.Is(err, brokererr.ErrClusterMismatch) {
				s.amqp = nil
			}
		})
		timer := time.NewTimer(retry.wait())
		select {
		case <-timer.C:
		case <-c.done.Done():
			timer.Stop()
		}
	}
}

// connected is the time from opening a connection to its end, and returns why it ended. The next look says whether it may be
// used. What was known of the broker may be out of date after a time without: it is looked at again.
func (c *Connection) connected(l *amqpconn.Conn, first bool) error {
	ended := l.Connection.NotifyClose(make(chan *amqp.Error, 1))
	c.report(func(s *state) { s.amqp, s.health.Connected, s.amqpVersion = nil, true, l.Version })
	if !first {
		c.strange.Store(true)
	}
	c.candidate.offer(l)
	defer c.candidate.withdraw()
	select {
	case err := <-l.Refused:
		l.Close(c.timing.goodbye)
		return err
	case reply := <-ended:
		l.CloseSocket()
		if reply == nil || l.Overdue.Load() {
			return c.errs.Fail(brokererr.ErrTimeout, "AMQP operation")
		}
		return c.errs.Fail(brokererr.ErrUnreachable, "the AMQP connection was closed: %s", brokererr.WithoutCode(reply.Reason))
	case <-c.done.Done():
		l.Close(c.timing.goodbye)
		return brokererr.ErrClosed
	}
}

// report changes the state, and says so where it matters.
func (c *Connection) report(apply func(*state)) {
	before, after := c.state.change(apply)
	if before.same(after) {
		return
	}
	if text(after.Err) != text(before.Err) && after.Err != nil {
		c.log.Info("The broker connection fails", "vhost", c.config.VHost, "reason", after.Err.Error())
	}
	if after.well() && !before.well() {
		c.log.Info("The broker connection is well", "vhost", c.config.VHost, "version", after.Version, "cluster", after.ClusterName)
	}
	c.notices.add(snapshot.Notice{Health: true})
}
