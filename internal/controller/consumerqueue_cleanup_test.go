package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
)

// departures are one of each kind that may go, and one of each that may not.
func departures() topology.Comparison {
	binding := func(key string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "dlx", Destination: "dlq", RoutingKey: key, Role: v1alpha1.RoleDeadLetter}
	}
	object := func(kind v1alpha1.ObjectKind, name string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: kind, Name: name, Role: v1alpha1.RoleDeadLetter}
	}
	return topology.Comparison{Departures: []topology.Departure{
		{Entry: object(v1alpha1.KindExchange, "dlx")},
		{Entry: object(v1alpha1.KindExchange, "used"), Blocked: `"audit" is bound to it`},
		{Entry: object(v1alpha1.KindQueue, "dlq")},
		{Entry: object(v1alpha1.KindQueue, "fed"), Blocked: `queue "theirs" still dead-letters to it`},
		{Entry: binding("a")},
		{Entry: binding("b"), Blocked: `queue "theirs" still dead-letters by it`},
	}}
}

// Queues are not among what goes at once: they have to be empty.
func TestRemovalOf(t *testing.T) {
	t.Parallel()
	want := rabbit.Removal{
		Bindings:  []topology.Binding{{Source: "dlx", Destination: "dlq", RoutingKey: "a", Role: v1alpha1.RoleDeadLetter}},
		Exchanges: []string{"dlx"},
	}
	equal(t, "by default", want, removalOf(departures(), ""))
	equal(t, "with Correct", want, removalOf(departures(), v1alpha1.DriftPolicyCorrect))
	equal(t, "with Report", rabbit.Removal{}, removalOf(departures(), v1alpha1.DriftPolicyReport))
}

// Of each queue and exchange that stays it is said why, until it is known to be gone.
func TestCleanUpSaysWhatStays(t *testing.T) {
	t.Parallel()
	const (
		used  = `exchange "used" is not wanted any more and stays for now: "audit" is bound to it`
		fed   = `queue "fed" is not wanted any more and stays for now: queue "theirs" still dead-letters to it`
		empty = `queue "dlq" is not wanted any more and stays for now: `
	)
	for name, test := range map[string]struct {
		policy v1alpha1.DriftPolicy
		// said is what the status says of the queue; tried whether an attempt has ended, and how.
		said   string
		tried  bool
		result error
		want   []string
	}{
		"while it is tried": {want: []string{used, empty + "it is being looked at whether it is empty", fed}},
		"while it is tried, after the operator was restarted": {
			said: empty + "it holds messages or has consumers", want: []string{used, empty + "it holds messages or has consumers", fed},
		},
		"when it is not empty": {
			tried: true, result: fmt.Errorf("%w: queue %q holds 7 messages", rabbit.ErrNotEmpty, "dlq"),
			want: []string{used, empty + "it holds messages or has consumers", fed},
		},
		"when it could not be tried": {
			tried: true, result: errors.New("no policymaker"), want: []string{used, empty + "no policymaker", fed},
		},
		"when it is gone": {tried: true, said: empty + "it holds messages or has consumers", want: []string{used, fed}},
		"with Report":     {policy: v1alpha1.DriftPolicyReport, want: []string{used, empty + "driftPolicy is Report", fed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := consumerQueue(t, `{}`)
			cq.Spec.DriftPolicy = test.policy
			if test.said != "" {
				cq.Status.Advisories = []v1alpha1.Advisory{
					{Code: v1alpha1.AdvisoryShadowedByPolicy, Name: "dlq", Message: "something else"},
					{Code: v1alpha1.AdvisoryOrphaned, Name: "dlq", Message: test.said},
				}
			}
			removals, told := newToldRemovals(t)
			if test.tried {
				broker := newDeleter()
				_, _ = removals.attempt(orders, broker, "a", group{queues: []string{"dlq"}}, emptyAgain)
				broker.results <- test.result
				<-told
			}
			l := &look{ConsumerQueueReconciler: &ConsumerQueueReconciler{removals: removals}, cq: cq}
			comparison := departures()
			l.cleanUp(&scene{connection: &rabbit.Connection{}}, &comparison)
			var messages []string
			for _, advisory := range comparison.Advisories {
				equal(t, "code", v1alpha1.AdvisoryOrphaned, advisory.Code)
				messages = append(messages, advisory.Message)
			}
			equal(t, "advisories", test.want, messages)
		})
	}
}

// What was begun is ended when the resource is to do nothing at the broker for now.
func TestNothingIsTriedWhile(t *testing.T) {
	t.Parallel()
	suspend := true
	for name, stop := range map[string]func(l *look) error{
		"it is suspended": func(l *look) error {
			l.cq.Spec.Suspend = &suspend
			_, err := l.run(t.Context())
			return err
		},
		"its BrokerConnection is suspended": func(l *look) error {
			l.client = testClient(t, brokerConnection(v1alpha1.BrokerConnectionSpec{Suspend: &suspend}))
			_, err := l.run(t.Context())
			return err
		},
		"its spec is refused": func(l *look) error {
			return l.compareAndCorrect(t.Context(), nil, topology.Version{Major: 3, Minor: 9}, "/")
		},
		"another has the better right": func(l *look) error {
			l.yield(topology.Conflict{Holder: "shop/other", Message: "it was there first"})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			removals, told := newToldRemovals(t)
			cq := consumerQueue(t, `{}`)
			l := &look{ConsumerQueueReconciler: &ConsumerQueueReconciler{removals: removals}, cq: cq, status: cq.Status.DeepCopy()}
			broker := newDeleter()
			_, _ = removals.attempt(orders, broker, "a", group{queues: []string{"dlq"}}, 0)
			equal(t, "begun", []string{"dlq"}, <-broker.begun)
			equal(t, "error", nil, stop(l))
			equal(t, "remembered", 0, len(removals.of))
			equal(t, "told", orders, <-told)
		})
	}
}

// What is at another cluster or vhost stays there, and nothing here is taken for it.
func TestMoveTo(t *testing.T) {
	t.Parallel()
	const from = `{bindings: [{exchange: {name: events, type: topic}}], retry: {policy: None}}`
	for name, test := range map[string]struct {
		before, here place
		want         []occurrence
	}{
		"the first place": {here: place{"rabbit@a", "/"}},
		"the same place":  {before: place{"rabbit@a", "/"}, here: place{"rabbit@a", "/"}},
		"another cluster": {
			before: place{"rabbit@a", "/"}, here: place{"rabbit@b", "/"},
			want: []occurrence{{"Warning", "Retained", "Move", `BrokerConnection "default" leads to vhost "/" of cluster "rabbit@b" now; ` +
				`what is in vhost "/" of cluster "rabbit@a" stays there: exchange "orders.dlx"; queue "orders"; queue "orders.dlq"`}},
		},
		"another vhost": {
			before: place{"rabbit@a", "one"}, here: place{"rabbit@a", "two"},
			want: []occurrence{{"Warning", "Retained", "Move", `BrokerConnection "default" leads to vhost "two" of cluster "rabbit@a" now; ` +
				`what is in vhost "one" of cluster "rabbit@a" stays there: exchange "orders.dlx"; queue "orders"; queue "orders.dlq"`}},
		},
	} {
		cq := synced(t, "orders", from, "")
		cq.Status.ClusterName, cq.Status.VHost, cq.Status.TopologyOmitted = test.before.cluster, test.before.vhost, 3
		l := &look{cq: cq, status: cq.Status.DeepCopy()}
		l.moveTo(test.here)
		equal(t, name+": events", test.want, l.events, comparingOccurrences)
		equal(t, name+": cluster", test.here.cluster, l.status.ClusterName)
		remembered, omitted := cq.Status.Topology, int32(3)
		if test.want != nil {
			remembered, omitted = nil, 0
		}
		equal(t, name+": topology", remembered, l.status.Topology)
		equal(t, name+": omitted", omitted, l.status.TopologyOmitted)
	}
}

func TestNewlyOwned(t *testing.T) {
	t.Parallel()
	queue := func(name string, origin v1alpha1.Origin, shape string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name, Origin: origin, Shape: shape}
	}
	known := historyOf([]v1alpha1.TopologyEntry{queue("ours", v1alpha1.OriginDeclared, ""), queue("somebody's", v1alpha1.OriginAdopted, "")})
	for name, test := range map[string]struct {
		entry v1alpha1.TopologyEntry
		want  bool
	}{
		"ours before":                   {queue("ours", v1alpha1.OriginDeclared, "s"), false},
		"somebody's before and now":     {queue("somebody's", v1alpha1.OriginAdopted, ""), false},
		"somebody's, seen as wanted":    {queue("somebody's", v1alpha1.OriginAdopted, "s"), true},
		"about to be declared":          {queue("new", v1alpha1.OriginDeclared, ""), true},
		"not there, nor to be declared": {queue("new", "", ""), false},
	} {
		equal(t, name, test.want, newlyOwned([]v1alpha1.TopologyEntry{test.entry}, known))
	}
}
