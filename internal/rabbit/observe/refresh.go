package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// refresher refreshes the vhost: on request, when AMQP has connected, and once per interval.
type refresher struct {
	Settings
	views     *views
	instances *otherInstances
	requests  *refreshRequests

	// Only the goroutine of run uses these.
	info     *management.BrokerInfo // of the last probe; nil before the first one
	probedAt time.Time              // when it was received
	readAt   time.Time              // when the refresh that this connection last used began
	// failure is the error of the last refresh that failed. No refresh begins before pausedUntil; see refreshUnlessPaused. During
	// such a pause, no link is matched before matchAgainAt.
	failure      error
	pausedUntil  time.Time
	matchAgainAt time.Time
}

// run refreshes, with one request to the management API at a time.
func (r *refresher) run(ctx context.Context) {
	again := retry.Backoff{First: r.Timeouts.FirstRetry, Limit: min(r.Timeouts.LastRetry, r.ResyncInterval)}
	r.awaitLink(ctx)
	for ctx.Err() == nil {
		waiting, askedAt := r.requests.take()
		err := r.refreshUnlessPaused(ctx, askedAt)
		for _, result := range waiting {
			result <- err
		}
		wait := max(retry.Jitter(r.ResyncInterval)-time.Since(r.readAt), time.Until(r.views.nextRefresh(r.Timeouts.Pace)))
		if err == nil {
			again.Reset()
			r.readMembers(ctx)
			r.countMessages(ctx)
		} else {
			r.requests.requeue(askedAt)
			wait = again.Wait()
		}
		r.sleep(ctx, wait)
	}
}

// sleep waits until the next refresh is due: after a time, or earlier on request but not faster than the pace, or immediately
// if AMQP has connected.
func (r *refresher) sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return
	case <-r.requests.wake:
	case <-r.Matcher.Offered():
		return
	case <-ctx.Done():
		return
	}
	timer.Reset(time.Until(r.views.nextRefresh(r.Timeouts.Pace)))
	select {
	case <-timer.C:
	case <-r.Matcher.Offered():
	case <-ctx.Done():
	}
}

// awaitLink waits a moment for AMQP to connect. A connection without AMQP shares no snapshot, and would need another refresh to share one.
func (r *refresher) awaitLink(ctx context.Context) {
	timer := time.NewTimer(r.Timeouts.Link)
	defer timer.Stop()
	select {
	case <-r.Matcher.Offered():
	case <-timer.C:
	case <-ctx.Done():
	}
}

const (
	// tooLargeFactor is the pause after an answer that was too large, as a multiple of the duration of the refresh.
	tooLargeFactor = 100
	// maxFailurePause is the longest pause after a failed refresh or survey.
	maxFailurePause = 5 * time.Minute
)

// refreshUnlessPaused skips refreshes for a while after a failure that cost CPU time, because the next refresh would cost as much. During
// the pause, it only matches AMQP.
func (r *refresher) refreshUnlessPaused(ctx context.Context, askedAt time.Time) error {
	if time.Now().Before(r.pausedUntil) {
		r.matchDuringPause(ctx)
		return r.failure
	}
	pause, err := r.pauseAfter(func() error { return r.refresh(ctx, askedAt) })
	if err != nil {
		r.failure, r.pausedUntil = err, time.Now().Add(pause)
	}
	return err
}

// matchDuringPause matches a waiting link, because without AMQP a recreation cannot open its fence, and publishers wait. The answers that
// it needs are usually small. If they are not, both the pause and the wait until the next match become longer.
func (r *refresher) matchDuringPause(ctx context.Context) {
	if !r.Matcher.IsWaiting() || time.Now().Before(r.matchAgainAt) {
		return
	}
	pause, _ := r.pauseAfter(func() error { return r.probeAndMatch(ctx) }) // a mismatch is recorded in Health
	r.pausedUntil, r.matchAgainAt = r.pausedUntil.Add(pause), time.Now().Add(pause)
	r.requests.MarkStale() // the next refresh must read the identity, too
}

// pauseAfter runs a step, and returns how long to wait before a similar one. The pause depends on the time for decoding answers, by
// Pace.Share. It is longer after an answer that exceeded its limit. The wait for the broker does not count, so that a connection recovers
// soon.
func (r *refresher) pauseAfter(step func() error) (pause time.Duration, err error) {
	began := time.Now()
	r.ReadAPI.TakeDecodingTime() // of earlier answers
	err = step()
	pause = time.Duration(r.Timeouts.Pace.Share) * r.ReadAPI.TakeDecodingTime()
	if errors.Is(err, brokererr.ErrResponseTooLarge) {
		pause = tooLargeFactor * time.Since(began)
	}
	return min(pause, maxFailurePause), err
}

// refresh reads the identity of the broker if it is not certain, and then the vhost.
func (r *refresher) refresh(ctx context.Context, askedAt time.Time) error {
	started := time.Now()
	began, err := r.probeAndRead(ctx, askedAt)
	metrics.Refreshes.Observe(time.Since(started), brokererr.Result(err))
	if err != nil && !errors.Is(err, errReadByAnother) {
		r.requests.MarkStale() // also when closing, because another refresh may still begin
	}
	if ctx.Err() != nil {
		return brokererr.ErrClosed
	}
	r.Health.Update(func(s *health.Parts) {
		s.Management = err
		if errors.Is(err, brokererr.ErrClusterMismatch) { // Parts.Mismatch has it until a link matches
			s.Management = nil
		}
		if err == nil {
			s.Health.SyncedAt = began
		}
	})
	if err == nil {
		r.Notify(snapshot.Notice{Current: true})
	}
	return err
}

func (r *refresher) probeAndRead(ctx context.Context, askedAt time.Time) (began time.Time, err error) {
	now := time.Now()
	if err := r.probeAndMatch(ctx); err != nil {
		return began, err
	}
	if err := r.checkMajority(ctx); err != nil {
		return began, err
	}
	view, moving := r.views.prepare(r.observationKey())
	demand := demand{oldest: r.earliestUseful(askedAt, now), twice: moving, limit: 2 * r.Timeouts.Request}
	if moving && view.openedAt.After(demand.oldest) {
		demand.oldest = view.openedAt // an older read may lack the changes before that
	}
	if began, err = view.refresh(ctx, r.Errors, demand, r.read); err != nil {
		return began, err
	}
	r.views.show(view)
	r.readAt = began
	// A failure to list the connections does not fail the refresh. A removal lists them again, and fails if it cannot.
	_ = r.instances.surveyOften(ctx, view.changedAt())
	r.ClearLeftovers(began)
	return began, nil
}

// probeAndMatch makes sure that AMQP and the management API lead to one broker.
func (r *refresher) probeAndMatch(ctx context.Context) error {
	if err := r.probe(ctx); err != nil {
		return err
	}
	return r.Matcher.MatchNew(ctx, r.info)
}

// earliestUseful returns the earliest beginning of another connection's refresh that also serves this connection.
func (r *refresher) earliestUseful(askedAt, now time.Time) time.Time {
	oldest := now.Add(-r.ResyncInterval)
	for _, later := range []time.Time{askedAt, r.requests.outdatedBefore(), r.readAt.Add(1)} {
		if later.After(oldest) {
			oldest = later
		}
	}
	return oldest
}

// observationKey returns the key of the connections that may share a snapshot with this one.
func (r *refresher) observationKey() observationKey {
	key := observationKey{
		broker: r.Broker, vhost: r.VHost, user: r.Username,
		tags: fmt.Sprintf("%q", r.info.Tags), definitions: r.info.Capabilities.Definitions,
	}
	if r.Matcher.IsMatched() {
		key.clusterID = r.info.Identity.ID
	}
	return key
}

// probe reads the identity of the broker and the rights of the user after each (re)connect and each failure, when the tags have changed,
// and during an upgrade of nodes. The last node may be upgraded without closing a connection of Warren. It reads the tags before each
// refresh, unless the refresh reads definitions, which proves that the user is still an administrator.
func (r *refresher) probe(ctx context.Context) error {
	if !r.requests.takeStale() && r.info != nil && !r.info.Upgrading {
		if r.info.Capabilities.Definitions {
			return nil
		}
		tags, err := r.ReadAPI.Whoami(ctx)
		if err != nil || slices.Equal(tags, r.info.Tags) {
			return err
		}
	}
	info, err := r.ReadAPI.Probe(ctx)
	if err == nil {
		r.probed(info)
	}
	return err
}

// probed records the identity of the broker. If it may be another broker than before, the AMQP connection must be matched again.
func (r *refresher) probed(info *management.BrokerInfo) {
	known := r.info
	r.info, r.probedAt = info, time.Now()
	if view := r.views.get(); view != nil {
		view.store.Forget() // it may be another cluster
		view.members.expire(r.requests.outdatedBefore(), info.Nodes)
	}
	r.Matcher.Rematch(known, info)
	r.Health.Update(func(s *health.Parts) {
		s.NodeVersion, s.Health.ClusterName, s.Health.Capabilities = info.Version, info.Identity.Name, info.Capabilities
		s.Health.Nodes = info.Nodes
		if r.Matcher.IsMatched() {
			s.Health.Cluster = info.Identity
		}
	})
}

// read reads the vhost. It verifies that the answer comes from the probed cluster, to which AMQP leads, because objects of another cluster
// must not enter the snapshot.
func (r *refresher) read(ctx context.Context, etag string) (*snapshot.Snapshot, string, error) {
	shared := r.observationKey().isShared()
	fresh, etag, err := r.readVHost(ctx, etag)
	unchanged := errors.Is(err, management.ErrNotModified)
	if err != nil && !unchanged {
		return nil, "", err
	}
	another := r.verifySameBroker(ctx, unchanged)
	if another == nil && shared && !r.Matcher.IsMatched() {
		another = r.Errors.Fail(brokererr.ErrUnreachable, "the AMQP connection ended while the vhost was read")
	}
	if another != nil {
		fresh.Free()
		return nil, "", another
	}
	if fresh != nil {
		fresh.Cluster = r.info.Identity.Key()
	}
	return fresh, etag, err
}

// readVHost reads the definitions if the user may, and the listings otherwise. A refusal shows that the user is no longer an administrator.
func (r *refresher) readVHost(ctx context.Context, etag string) (*snapshot.Snapshot, string, error) {
	if r.info.Capabilities.Definitions {
		fresh, etag, err := snapshot.ReadDefinitions(ctx, r.ReadAPI, etag, r.info.Builtin)
		if !errors.Is(err, brokererr.ErrAccessRefused) {
			return fresh, etag, err
		}
		r.info.Capabilities.Definitions = false
		r.probed(r.info)
		r.requests.MarkStale() // the next refresh asks for the tags
		r.requests.RequestRefresh()
	}
	fresh, err := snapshot.ReadListings(ctx, r.ReadAPI, r.info.Builtin)
	return fresh, "", err
}

// verifySameBroker fails if a broker other than the probed one may have answered. unchanged reports whether the answer was ErrNotModified.
// RabbitMQ closes a TCP connection that was idle for 5 s, so most reads of a quiet vhost open a new one. Usually one request shows that the
// new connection leads to the broker of the AMQP connection. Otherwise it reads the identity of the cluster, and matches the link again.
func (r *refresher) verifySameBroker(ctx context.Context, unchanged bool) error {
	moved := r.ReadAPI.TookNewConnection()
	if unchanged && !moved {
		return nil
	}
	if shown, err := r.Matcher.IsShownAgain(ctx); err != nil || shown {
		return err
	}
	if moved {
		if err := r.Matcher.CheckStillAnswers(ctx, r.info); err != nil {
			return err
		}
	}
	return r.Matcher.MatchAgain(ctx, r.info, moved)
}
