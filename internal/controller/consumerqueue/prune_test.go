package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

// orphans returns a prunable orphan and a blocked orphan of each kind.
func orphans() plan.Comparison {
	binding := func(key string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "dlx", Destination: "dlq", RoutingKey: key, Role: v1alpha1.RoleDeadLetter}
	}
	source := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders", Arguments: `{"type":"a"}`, Role: v1alpha1.RoleSource}
	object := func(kind v1alpha1.ObjectKind, name string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: kind, Name: name, Role: v1alpha1.RoleDeadLetter}
	}
	return plan.Comparison{Orphans: []plan.Orphan{
		{Entry: object(v1alpha1.KindExchange, "dlx")},
		{Entry: object(v1alpha1.KindExchange, "used"), BlockedBy: plan.Blocker{Reason: v1alpha1.AdvisoryReasonInUse, Message: `"audit" is bound to it`}},
		{Entry: object(v1alpha1.KindQueue, "dlq")},
		{Entry: object(v1alpha1.KindQueue, "fed"), BlockedBy: plan.Blocker{Reason: v1alpha1.AdvisoryReasonInUse, Message: `queue "theirs" still dead-letters to it`}},
		{Entry: binding("a")},
		{Entry: binding("b"), BlockedBy: plan.Blocker{Reason: v1alpha1.AdvisoryReasonInUse, Message: `queue "theirs" still dead-letters through it`}},
		{Entry: binding("c"), BlockedBy: plan.Blocker{Reason: v1alpha1.AdvisoryReasonReplacementPending, Message: "the new objects of the spec do not exist yet"}},
		{Entry: source, BlockedBy: plan.Blocker{Reason: v1alpha1.AdvisoryReasonRecreationPending, Message: `queue "orders" must be recreated first`}},
	}}
}

// Queues are not removed immediately: Warren checks first that they are empty.
func TestRemovalOf(t *testing.T) {
	t.Parallel()
	want := rabbit.Removal{
		Bindings:  []topology.Binding{{Source: "dlx", Destination: "dlq", RoutingKey: "a", Role: v1alpha1.RoleDeadLetter}},
		Exchanges: []string{"dlx"},
	}
	topologytest.Equal(t, "by default", want, removalOf(plan.Decide(orphans(), nil, "")))
	topologytest.Equal(t, "with Correct", want, removalOf(plan.Decide(orphans(), nil, v1alpha1.DriftPolicyCorrect)))
	topologytest.Equal(t, "with Report", rabbit.Removal{}, removalOf(plan.Decide(orphans(), nil, v1alpha1.DriftPolicyReport)))
}

// An advisory names each queue, each exchange and the bindings of sources that remain, and why, until they are gone.
func TestPruneReportsWhatRemains(t *testing.T) {
	t.Parallel()
	const (
		used  = `exchange "used" is no longer in the spec; retained: "audit" is bound to it`
		fed   = `queue "fed" is no longer in the spec; retained: queue "theirs" still dead-letters to it`
		empty = `queue "dlq" is no longer in the spec; retained: `
		bound = `bindings of queue "orders" to exchange "events" are no longer in the spec; retained: queue "orders" must be recreated first. ` +
			`Routing keys: "" {"type":"a"}`
	)
	for name, test := range map[string]struct {
		policy v1alpha1.DriftPolicy
		// said is the reason in the status. tried reports whether a task has ended, with result.
		said   v1alpha1.AdvisoryReason
		tried  bool
		result error
		want   []string
	}{
		"the task runs": {want: []string{used, empty + "checking whether it is empty", fed}},
		"the task runs, after a restart of Warren": {
			said: v1alpha1.AdvisoryReasonNotEmpty, want: []string{used, empty + "it holds messages or has consumers", fed},
		},
		"the task runs, after another reason": {
			said: v1alpha1.AdvisoryReasonReplacementPending, want: []string{used, empty + "checking whether it is empty", fed},
		},
		"the queue is not empty": {
			tried: true, result: fmt.Errorf("%w: queue %q holds 7 messages", brokererr.ErrNotEmpty, "dlq"),
			want: []string{used, empty + "it holds messages or has consumers", fed},
		},
		"the task failed": {
			tried: true, result: errors.New("no policymaker"), want: []string{used, empty + "no policymaker", fed},
		},
		"the queue is gone":     {tried: true, said: v1alpha1.AdvisoryReasonNotEmpty, want: []string{used, fed}},
		"driftPolicy is Report": {policy: v1alpha1.DriftPolicyReport, want: []string{used, empty + "driftPolicy is Report", fed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := controllertest.ConsumerQueue(t, `{}`)
			cq.Spec.DriftPolicy = test.policy
			if test.said != "" {
				cq.Status.Advisories = []v1alpha1.Advisory{
					{Code: v1alpha1.AdvisoryShadowedByPolicy, Name: "dlq", Reason: v1alpha1.AdvisoryReasonNotEmpty},
					{Code: v1alpha1.AdvisoryOrphaned, Name: "dlq", Reason: test.said},
				}
			}
			enqueued := controllertest.NewEnqueued()
			removals := brokers.NewDeletionTasks(t.Context(), enqueued.Enqueue)
			if test.tried {
				broker := controllertest.NewDeleter()
				_, _ = removals.Ensure(controllertest.Orders, broker, "a", brokers.Group{Queues: []string{"dlq"}}, emptyAgain)
				broker.Results <- test.result
				<-enqueued
			}
			l := &scope{Reconciler: &Reconciler{deletions: removals}, report: reportOn(cq)}
			comparison := orphans()
			broker := slow{deleter: controllertest.NewDeleter()}
			v := &vhostScope{scope: l, connection: &brokers.Broker{Probe: broker, Observer: broker, Changer: broker}}
			v.prune(&comparison)
			var messages []string
			for _, advisory := range comparison.Advisories {
				topologytest.Equal(t, "code", v1alpha1.AdvisoryOrphaned, advisory.Code)
				messages = append(messages, advisory.Message)
			}
			topologytest.Equal(t, "advisories", append(test.want, bound), messages)
		})
	}
}

// A running task is cancelled when the resource must not change the broker any more.
func TestTasksAreCancelled(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(l *scope) error{
		"the resource is suspended": func(l *scope) error {
			l.cq.Spec.Suspend = true
			_, err := l.reconcileNormal(t.Context())
			return err
		},
		"the BrokerConnection is suspended": func(l *scope) error {
			l.client = controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes}, controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{Suspend: true}))
			_, err := l.reconcileNormal(t.Context())
			return err
		},
		"the spec is refused": func(l *scope) error {
			_, err := l.reconcileTopology(t.Context(), nil, vhost.Version{Major: 3, Minor: 9})
			return err
		},
		"another ConsumerQueue holds an object": func(l *scope) error {
			l.markConflict(ownership.Conflict{Message: "it was there first"})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enqueued := controllertest.NewEnqueued()
			removals := brokers.NewDeletionTasks(t.Context(), enqueued.Enqueue)
			cq := controllertest.ConsumerQueue(t, `{}`)
			recreations := newRecreationTasks(t.Context(), func(client.ObjectKey) {})
			l := &scope{Reconciler: &Reconciler{deletions: removals, recreations: recreations}, report: reportOn(cq)}
			broker := controllertest.NewDeleter()
			group := brokers.Group{Queues: []string{"dlq"}}
			_, _ = removals.Ensure(controllertest.Orders, broker, "a", group, 0)
			topologytest.Equal(t, "begun", []string{"dlq"}, <-broker.Begun)
			topologytest.Equal(t, "error", nil, stop(l))
			topologytest.Equal(t, "enqueued", controllertest.Orders, <-enqueued)
			remembered, _ := removals.Ensure(controllertest.Orders, broker, "a", group, time.Hour)
			topologytest.Equal(t, "remembered", false, remembered)
		})
	}
}

// Objects at the former cluster or vhost remain there, and Warren owns none of the objects here.
func TestSwitchLocation(t *testing.T) {
	t.Parallel()
	const (
		from   = `{bindings: [{exchange: {name: events, type: topic}}], retry: {policy: None}}`
		stays  = `: exchange "orders.dlx"; queue "orders"; queue "orders.dlq"`
		leads  = `BrokerConnection "default" now leads to `
		whatIs = `. Warren retains these objects in vhost "/" of cluster "rabbit@a"` + stays
	)
	strong := func(id, name, endpoint string) ownership.Location {
		return ownership.Location{Cluster: vhost.Cluster{ID: id, Name: name, Endpoint: endpoint}, VHost: "/"}
	}
	warning := func(note string) []occurrence { return []occurrence{{"Warning", "Retained", "Move", note}} }
	for name, test := range map[string]struct {
		before, here, after ownership.Location
		want                []occurrence
	}{
		"the first location": {here: at("rabbit@a", "/")},
		"the same location":  {before: at("rabbit@a", "/"), here: at("rabbit@a", "/")},
		"another cluster": {
			before: at("rabbit@a", "/"), here: at("rabbit@b", "/"), want: warning(leads + `vhost "/" of cluster "rabbit@b"` + whatIs),
		},
		"another vhost": {
			before: at("rabbit@a", "/"), here: at("rabbit@a", "two"), want: warning(leads + `vhost "two" of cluster "rabbit@a"` + whatIs),
		},
		"another cluster with the same name": {
			before: strong("1", "rabbit@a", "mq:5672"), here: strong("2", "rabbit@a", "mq:5672"),
			want: warning(leads + `another cluster with that name, at mq:5672` + whatIs),
		},
		"perhaps another cluster with the same name": {
			before: at("rabbit@a", "/"), here: strong("", "rabbit@a", "green:5672"),
			want: warning(leads + `possibly another cluster with that name, at green:5672` + whatIs),
		},
		"the cluster was renamed":          {before: strong("1", "rabbit@a", "mq:5672"), here: strong("1", "hare", "mq:5672")},
		"the cluster's ID can be read now": {before: at("rabbit@a", "/"), here: strong("1", "rabbit@a", "mq:5672")},
		"the cluster's ID can no longer be read": {
			before: strong("1", "rabbit@a", "mq:5672"), here: at("rabbit@a", "/"), after: strong("1", "rabbit@a", "mq:5672"),
		},
	} {
		cq := controllertest.Synced(t, "orders", from, "")
		cq.Status.Location.ClusterName, cq.Status.Location.ClusterEndpoint, cq.Status.Location.VHost, cq.Status.TopologyOmitted = "", "", "", 3
		test.before.Record(&cq.Status.Location)
		l := &scope{report: reportOn(cq)}
		l.switchLocation(test.here)
		topologytest.Equal(t, name+": events", test.want, l.events, comparingOccurrences)
		if test.after == (ownership.Location{}) {
			test.after = test.here
		}
		topologytest.Equal(t, name+": place", test.after, ownership.Recorded(l.status.Location))
		remembered, omitted := cq.Status.Topology, int32(3)
		if test.want != nil {
			remembered, omitted = nil, 0
		}
		topologytest.Equal(t, name+": topology", remembered, l.status.Topology)
		topologytest.Equal(t, name+": omitted", omitted, l.status.TopologyOmitted)
	}
}

// If Warren declared nothing at the former location, no Event is recorded.
func TestSwitchLocationWithoutDeclaredObjects(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, `{}`)
	at("rabbit@a", "/").Record(&cq.Status.Location)
	cq.Status.Topology = []v1alpha1.TopologyEntry{{Kind: v1alpha1.KindQueue, Name: "orders", Origin: v1alpha1.OriginAdopted}}
	l := &scope{report: reportOn(cq)}
	l.switchLocation(at("rabbit@b", "/"))
	topologytest.Equal(t, "events", nil, l.events, comparingOccurrences)
	topologytest.Equal(t, "topology", nil, l.status.Topology)
}

// slow is a broker whose deletions run until the test ends them.
type slow struct {
	brokers.Probe
	brokers.Observer
	brokers.Changer

	deleter *controllertest.Deleter
}

func (slow) Health() rabbit.Health { return rabbit.Health{} }

func (s slow) DeleteEmpty(ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error) error {
	return s.deleter.DeleteEmpty(ctx, cluster, queues, stillDeletable)
}

// at returns a location with this cluster and vhost name.
func at(cluster, name string) ownership.Location {
	return ownership.Location{Cluster: vhost.Cluster{Name: cluster, Endpoint: "mq:5672"}, VHost: name}
}

// A queue with messages is checked again after an eighth of its TTL, at most once in 10 seconds and at least once a minute.
func TestCheckAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ttl    int64 // in milliseconds; none if zero
		before plan.Blocker
		want   time.Duration
	}{
		"the queue is not known to have messages": {ttl: 1_800_000, want: 10 * time.Second},
		"the queue has no TTL":                    {before: notEmpty, want: 10 * time.Second},
		"a TTL of 30 seconds":                     {ttl: 30_000, before: notEmpty, want: 10 * time.Second},
		"a TTL of four minutes":                   {ttl: 240_000, before: notEmpty, want: 30 * time.Second},
		"a TTL of half an hour":                   {ttl: 1_800_000, before: notEmpty, want: time.Minute},
	} {
		broker := brokerstest.New(vhost.RabbitMQ43, "/", "owner")
		arguments := vhost.Arguments{}
		if test.ttl > 0 {
			arguments[vhost.ArgMessageTTL] = test.ttl
		}
		broker.Change(func(s *snapshot.Snapshot) {
			s.PutQueue("orders.retry", vhost.Queue{Durable: true, Arguments: arguments})
		})
		v := &vhostScope{connection: &brokers.Broker{Probe: broker, Observer: broker, Changer: broker, Mover: broker}}
		entry := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "orders.retry"}
		topologytest.Equal(t, name, test.want, v.checkAgain(entry, test.before))
	}
}

func (slow) Observe(vhost.Selection) (vhost.Observed, bool) { return vhost.Observed{}, true }

// Another client begins to dead-letter to a queue after the queue left the spec.
func TestPruningAsksAgainRightBeforeTheQueueIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{retry: {delayTiers: [{delay: 30s}]}}`))
	w.mustReconcile()
	w.edit(controllertest.ConsumerQueue(t, `{retry: {policy: None}}`).Spec)
	w.broker.Interfere(func(s *snapshot.Snapshot) {
		s.PutQueue("other", vhost.Queue{Durable: true, Arguments: vhost.Arguments{
			vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders.retry.30s",
		}})
	})
	NewWithT(t).Eventually(func() []v1alpha1.Advisory {
		w.mustReconcile()
		return w.get().Status.Advisories
	}).WithTimeout(deadline.For(10 * time.Second)).Should(ContainElement(HaveField("Message", ContainSubstring(`queue "other"`))))
	topologytest.Equal(t, "queues", []string{"orders.retry.30s"}, w.queueNames("orders.retry.30s"))
}

// A routing key may wait for days until its replacement is bound. The advisory ends with the binding.
func TestAReplacedRoutingKeyThatStaysBoundIsReported(t *testing.T) {
	t.Parallel()
	keys := func(events, more string, maxLength int) *v1alpha1.ConsumerQueue {
		const spec = `{
			bindings: [{exchange: {name: events, type: topic}, routingKeys: [%s]}, {exchange: {name: more, type: topic}, routingKeys: [%s]}],
			deadLetter: {queue: {maxLength: %d}}}`
		return controllertest.NewConsumerQueue(t, fmt.Sprintf(spec, events, more, maxLength))
	}
	const stays = `bindings of queue "orders" to exchange %q are no longer in the spec; retained: the new objects of the spec do not exist yet. Routing keys: `
	w := newWorld(t, keys("a, b, c, d, e, f, g", "k", 9))
	w.mustReconcile()
	orphaned := func() (messages []string) {
		w.mustReconcile()
		for _, advisory := range w.get().Status.Advisories {
			if advisory.Code == v1alpha1.AdvisoryOrphaned {
				messages = append(messages, fmt.Sprintf("%s %s: %s", advisory.Name, advisory.Reason, advisory.Message))
			}
		}
		return messages
	}
	w.edit(keys("new", "new, k", 10).Spec)
	topologytest.Equal(t, "while the dead-letter queue waits to be recreated", []string{
		"events ReplacementPending: " + fmt.Sprintf(stays, "events") + `"a"; "b"; "c"; "d"; "e"; and 2 more`,
	}, orphaned())
	w.edit(keys("new", "new", 10).Spec)
	topologytest.Equal(t, "by exchange", []string{
		"events ReplacementPending: " + fmt.Sprintf(stays, "events") + `"a"; "b"; "c"; "d"; "e"; and 2 more`,
		"more ReplacementPending: " + fmt.Sprintf(stays, "more") + `"k"`,
	}, orphaned())
	w.edit(keys("new", "new", 9).Spec)
	topologytest.Equal(t, "when the replacements are bound", nil, orphaned())
}

// The claim and the declarations may take long. A removal then waits for a newer refresh, because others may use the object by now.
func TestARemovalAfterLongDeclarationsWaitsForARefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [old]}]}`))
	w.mustReconcile()
	w.edit(controllertest.NewConsumerQueue(t, `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [new]}]}`).Spec)
	bound := func(key string) bool {
		observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"orders"}, Exchanges: []string{"events"}})
		return observed.Has(vhost.Binding{Source: "events", Destination: "orders", RoutingKey: key}.ID())
	}
	v := w.vhostScope()
	comparison := v.compare(t.Context())
	v.comparedAt = time.Now().Add(-2 * time.Second)
	waits, err := v.carryOut(t.Context(), comparison, plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy))
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "waits for a refresh", true, waits == forRefresh)
	topologytest.Equal(t, "bound", []bool{true, true}, []bool{bound("old"), bound("new")})
	w.mustReconcile()
	topologytest.Equal(t, "bound in the end", []bool{false, true}, []bool{bound("old"), bound("new")})
}
