package eventfeed

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// Await answers a caller also if the marker will not arrive or does not suffice. The caller then refreshes the vhost.
func TestAwaitAMarker(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		happens func(f *Feed)
		want    []bool // the answers to a caller before the marker was sent, and to a caller after that
	}{
		"the marker arrives":                 {func(f *Feed) { f.Reach(time.Now()) }, []bool{true}},
		"both markers arrive":                {func(f *Feed) { f.Reach(time.Now()); f.Mark(); f.Reach(time.Now()) }, []bool{true, true}},
		"an event before it was not clear":   {func(f *Feed) { before := time.Now(); f.Unclear(); f.Reach(before) }, []bool{false}},
		"the broker may have dropped events": {func(f *Feed) { f.Add(Batch{Events: QueueLimit}); f.Reach(time.Now()) }, []bool{false}},
		"the vhost was read since": {func(f *Feed) {
			f.Add(Batch{Events: QueueLimit})
			f.Refreshed(time.Now(), f.Count(), snapshot.Difference{})
			f.Reach(time.Now())
		}, []bool{true}},
		"the subscription ends":             {func(f *Feed) { f.End(brokererr.ErrUnreachable) }, []bool{false, false}},
		"the subscription ends and is back": {func(f *Feed) { f.End(brokererr.ErrUnreachable); f.Begin() }, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFeed(retry.Backoff{})
			f.Begin()
			var told []bool
			tell := func(current bool) { told = append(told, current) }
			f.Await(time.Now(), tell)
			f.Mark()
			f.Await(time.Now(), tell)
			test.happens(&f)
			if !slices.Equal(told, test.want) {
				t.Errorf("told %v, want %v", told, test.want)
			}
		})
	}
	f := NewFeed(retry.Backoff{})
	if f.Await(time.Now(), func(bool) { t.Error("called without a subscription") }) {
		t.Error("waits for a marker that cannot arrive")
	}
}

// Objects that events add take memory that only a refresh counts, and a tenant may create any number of them.
func TestCreatedObjectsAreLimited(t *testing.T) {
	t.Parallel()
	f, readAt := NewFeed(retry.Backoff{}), time.Now()
	for range maxCreated {
		topologytest.Equal(t, "an object", true, f.MayCreate(readAt))
	}
	topologytest.Equal(t, "one more", false, f.MayCreate(readAt))
	topologytest.Equal(t, "an object after the next refresh", true, f.MayCreate(readAt.Add(1)))
}

func TestKnownExclusiveQueuesAreLimited(t *testing.T) {
	t.Parallel()
	f := NewFeed(retry.Backoff{})
	for i := range maxCreated + 1 {
		created := Change{Kind: Created, ID: vhost.QueueID(strconv.Itoa(i)), Queue: vhost.Queue{Exclusive: true}}
		topologytest.Equal(t, "exclusive", true, f.IsExclusive(created))
	}
	topologytest.Equal(t, "known queues", maxCreated, len(f.exclusive))
}

// The reason of a silence does not change while the broker is unreachable for a moment. If the broker stays unreachable, that error becomes
// the reason.
func TestReasonOfSilence(t *testing.T) {
	t.Parallel()
	silent, unreachable := fmt.Errorf("%w: no event", ErrSilent), fmt.Errorf("%w: closed", brokererr.ErrUnreachable)
	for name, test := range map[string]struct {
		happens func(f *Feed)
		want    string
		news    bool
	}{
		"silence":                            {func(*Feed) {}, "events are silent: no event", true},
		"silence again":                      {func(f *Feed) { f.End(silent) }, "events are silent: no event", false},
		"silence, and events arrive between": {func(f *Feed) { f.End(silent); f.Begin() }, "events are silent: no event", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFeed(retry.Backoff{})
			f.Begin()
			test.happens(&f)
			_, news := f.End(silent)
			for range 2 {
				if _, reason, _ := f.State(); reason != test.want || news != test.news {
					t.Errorf("reason %q, news %v", reason, news)
				}
				f.End(unreachable)
			}
			f.lostAt = f.lostAt.Add(-lossBudget)
			f.End(unreachable)
			if _, reason, _ := f.State(); reason != unreachable.Error() {
				t.Errorf("reason %q after a long time", reason)
			}
		})
	}
}

// Each silence makes the next pause longer, until events have arrived for longer than the longest pause.
func TestPausesAfterSilence(t *testing.T) {
	t.Parallel()
	f := NewFeed(retry.Backoff{First: time.Second, Limit: 4 * time.Second})
	pauses := func(want ...time.Duration) {
		t.Helper()
		for _, longest := range want {
			f.Begin()
			f.End(ErrSilent)
			if got := f.Pause(); got > longest || got < longest*9/10 {
				t.Errorf("a pause of %v, want %v", got, longest)
			}
		}
	}
	pauses(time.Second, 2*time.Second, 4*time.Second, 4*time.Second)
	f.Begin()
	f.since = f.since.Add(-5 * time.Second)
	f.End(brokererr.ErrUnreachable)
	pauses(time.Second)
}
