package observe

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// While a connection changes from one view to the next, it shows the old view, and its changes are in both.
func TestViewsShowNothingThatWasNotRead(t *testing.T) {
	t.Parallel()
	views := views{observations: NewObservations(), lifetime: t.Context(), listen: deaf, viewer: viewer{
		notify: func(snapshot.Notice) {},
	}}
	if _, read := views.Observe(vhost.Selection{}); read {
		t.Error("observes before the first reading")
	}
	old, next := observationKey{clusterID: "c", tags: "administrator"}, observationKey{clusterID: "c", tags: "management"}
	first, moving := views.prepare(old)
	if moving {
		t.Error("leaves a view although it has none")
	}
	first.store.Replace(snapshot.New(), "")
	views.show(first)
	second, moving := views.prepare(next)
	if again, _ := views.prepare(next); !moving || views.get() != first || again != second {
		t.Error("the next view is shown before it is read")
	}
	second.store.Begin()
	views.Write(snapshot.Write{ID: vhost.QueueID("orders"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("orders", vhost.Queue{}) }})
	second.store.Replace(snapshot.New(), "")
	for _, shown := range []*view{first, second} { // the old view is shown already
		views.show(shown)
		if observed, _ := views.Observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.Queues) != 1 {
			t.Error("one of the views lacks the change")
		}
	}
	if same, moving := views.prepare(next); moving || same != second || len(views.observations.shared) != 1 {
		t.Error("the old view is not closed")
	}
}

// A connection does not wait forever while another connection refreshes.
func TestWaitForAnotherRefreshIsBounded(t *testing.T) {
	t.Parallel()
	view := NewObservations().open(observationKey{}, viewer{})
	view.refreshing <- struct{}{}
	read := func(context.Context, string) (*snapshot.Snapshot, string, error) {
		t.Error("two connections read at the same time")
		return snapshot.New(), "", nil
	}
	_, err := view.refresh(t.Context(), brokererr.Errors{}, demand{oldest: time.Now(), limit: time.Millisecond}, read)
	if !errors.Is(err, brokererr.ErrTimeout) {
		t.Errorf("error is %v", err)
	}
}

// In another view, everything may differ. The receiver gets a notice once the view is shown.
func TestAnotherViewCausesANotice(t *testing.T) {
	t.Parallel()
	heard, shown := 0, (*view)(nil)
	views := &views{observations: NewObservations(), lifetime: t.Context(), listen: deaf}
	views.viewer = viewer{
		notify: func(notice snapshot.Notice) {
			if notice.Health {
				heard, shown = heard+1, views.get()
			}
		},
	}
	first, _ := views.prepare(observationKey{clusterID: "blue"})
	views.show(first)
	second, _ := views.prepare(observationKey{clusterID: "green"})
	if heard != 0 {
		t.Error("the first view counts as a change")
	}
	views.show(second)
	views.show(second)
	if heard != 1 || shown != second {
		t.Errorf("%d notices", heard)
	}
}

// A connection that moves to another view refreshes twice, because one refresh does not see the vhost at one moment.
func TestFirstRefreshAfterAMoveIsRepeated(t *testing.T) {
	t.Parallel()
	for twice, want := range map[bool]int{false: 1, true: 2} {
		view, readings := NewObservations().open(observationKey{}, silent()), 0
		read := func(context.Context, string) (*snapshot.Snapshot, string, error) {
			readings++
			return snapshot.New(), "", nil
		}
		if _, err := view.refresh(t.Context(), brokererr.Errors{}, demand{oldest: time.Now(), twice: twice, limit: deadline.For(30 * time.Second)}, read); err != nil {
			t.Fatal(err)
		}
		if readings != want {
			t.Errorf("%d readings, want %d", readings, want)
		}
	}
}

func silent() viewer {
	return viewer{notify: func(snapshot.Notice) {}}
}

// A change of one connection causes the same notice for the others as a change of another client.
func TestWritesConcernWhatChangesConcern(t *testing.T) {
	t.Parallel()
	toExchange := vhost.Binding{Source: "in", Destination: "dlx", ToExchange: true}
	before := func() *snapshot.Snapshot {
		s := snapshot.New()
		s.PutExchange("in", vhost.Exchange{Type: "topic", Durable: true})
		s.PutExchange("dlx", vhost.Exchange{Type: "topic", Durable: true})
		s.PutQueue("grave", vhost.Queue{})
		s.BindingsFrom["in"] = []vhost.Binding{toExchange}
		s.PutBinding(vhost.Binding{Source: "dlx", Destination: "grave", RoutingKey: "#"})
		return s
	}
	binding := vhost.Binding{Source: "dlx", Destination: "grave", RoutingKey: "new"}
	for name, write := range map[string]snapshot.Write{
		"a deleted queue":    {ID: vhost.QueueID("grave"), Apply: func(s *snapshot.Snapshot) bool { return s.DropQueue("grave") }},
		"a deleted exchange": {ID: vhost.ExchangeID("dlx"), Apply: func(s *snapshot.Snapshot) bool { return s.DropExchange("dlx") }},
		"a new binding":      {ID: binding.ID(), Apply: func(s *snapshot.Snapshot) bool { return s.PutBinding(binding) }},
		"a new queue":        {ID: vhost.QueueID("new"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("new", vhost.Queue{}) }},
		"nothing new":        {ID: vhost.QueueID("grave"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("grave", vhost.Queue{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observations, heard := NewObservations(), snapshot.Notice{}
			writer := observations.open(observationKey{clusterID: "c"}, silent())
			observations.open(observationKey{clusterID: "c"}, viewer{
				notify: func(notice snapshot.Notice) { heard = snapshot.Merge([]snapshot.Notice{heard, notice}) },
			})
			writer.store.Replace(before(), "")
			writer.write(write)
			after := before()
			write.Apply(after)
			want := snapshot.Changes(before(), after)
			read := func(context.Context, string) (*snapshot.Snapshot, string, error) { return after, "", nil }
			if _, err := writer.refresh(t.Context(), brokererr.Errors{}, demand{oldest: time.Now(), limit: deadline.For(30 * time.Second)}, read); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, heard, cmpopts.EquateEmpty()); difference != "" {
				t.Errorf("what changes concern (-), what was told (+):\n%s", difference)
			}
		})
	}
}

// If a connection closes while it reads the members of queues, the other connections retain the members that are known.
func TestClosingAConnectionRetainsMembers(t *testing.T) {
	t.Parallel()
	views := &views{observations: NewObservations(), lifetime: t.Context(), listen: deaf, viewer: silent()}
	view, _ := views.prepare(observationKey{clusterID: "c"})
	views.show(view)
	view.members.replace(3, map[string]int{"orders": 2})
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	vh := brokers.Newest(t).NewVHost(t)
	uri, err := url.Parse(vh.Broker.ManagementURI)
	if err != nil {
		t.Fatal(err)
	}
	api := management.NewClient(management.Options{
		URI: uri, Username: vh.Broker.Username, Password: vh.Broker.Password, VHost: vh.Name, Timeout: time.Second, Connections: 1,
		Limits: management.NewLimits(0),
	})
	r := &refresher{Settings: Settings{ReadAPI: api}, views: views, info: &management.BrokerInfo{Nodes: 3}}
	r.readMembers(closed)
	var observed vhost.Observed
	view.members.observe(vhost.Selection{Queues: []string{"orders"}}, &observed)
	if observed.Nodes != 3 || observed.Members["orders"] != 2 {
		t.Errorf("%+v", observed)
	}
}

// deaf receives no events.
func deaf(context.Context, *view) {}

// A vhost is not read more often than the pace allows, however many callers ask and however long each refresh takes.
func TestPace(t *testing.T) {
	t.Parallel()
	read := time.Now()
	for name, test := range map[string]struct {
		took time.Duration
		pace timing.Pace
		wait time.Duration
	}{
		"a quick reading": {took: 10 * time.Millisecond, pace: timing.Pace{Pause: time.Second, Share: 10}, wait: time.Second},
		"a slow reading":  {took: 3 * time.Second, pace: timing.Pace{Pause: time.Second, Share: 10}, wait: 30 * time.Second},
		"a stalled one":   {took: 2 * time.Minute, pace: timing.Pace{Pause: time.Second, Share: 10}, wait: 3 * time.Minute},
		"no pace":         {took: 3 * time.Second},
	} {
		observed := &observation{readAt: read, took: test.took}
		if wait := observed.nextRefresh(test.pace).Sub(read); wait != test.wait {
			t.Errorf("%s: %v, want %v", name, wait, test.wait)
		}
	}
}

// Nodes send their events independently of each other: a queue that was deleted and declared again can look deleted, or declared.
func TestEventsOfSeveralNodesOnlyRequestARefresh(t *testing.T) {
	t.Parallel()
	created := func(name string) eventfeed.Change {
		return eventfeed.Change{Kind: eventfeed.Created, ID: vhost.QueueID(name), Exact: true}
	}
	deleted := eventfeed.Change{Kind: eventfeed.Deleted, ID: vhost.QueueID("orders")}
	for name, test := range map[string]struct {
		changes  []eventfeed.Change
		ordered  bool
		queues   []string
		sufficed bool
	}{
		"one node":                            {[]eventfeed.Change{deleted, created("invoices")}, true, []string{"invoices"}, true},
		"several nodes":                       {[]eventfeed.Change{deleted}, false, []string{"orders"}, false},
		"several nodes, of which one is late": {[]eventfeed.Change{created("orders"), deleted}, false, []string{"orders"}, false},
		"several nodes, and another queue":    {[]eventfeed.Change{created("invoices")}, false, []string{"orders"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			idle := silent()
			idle.isDeleting = func(string) bool { return false }
			view := NewObservations().open(observationKey{}, idle)
			before := snapshot.New()
			before.PutQueue("orders", vhost.Queue{})
			view.store.Replace(before, "")
			sufficed := view.takeAll(test.changes, test.ordered)
			observed, _ := view.store.Observe(vhost.Selection{Queues: []string{"orders", "invoices"}})
			if got := slices.Collect(maps.Keys(observed.Queues)); sufficed != test.sufficed || !slices.Equal(got, test.queues) {
				t.Errorf("queues %v, sufficed %v", got, sufficed)
			}
		})
	}
}
