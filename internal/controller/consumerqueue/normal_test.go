package consumerqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestHead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list    []int
		want    []int
		omitted int32
	}{
		"an empty list":        {},
		"less than the limit":  {list: []int{1}, want: []int{1}},
		"as many as the limit": {list: []int{1, 2}, want: []int{1, 2}},
		"more than the limit":  {list: []int{1, 2, 3, 4}, want: []int{1, 2}, omitted: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, omitted := head(test.list, 2)
			topologytest.Equal(t, "list", test.want, got)
			topologytest.Equal(t, "omitted", test.omitted, omitted)
		})
	}
}

// The status keeps the limits of its schema: 256 entries of topology and 64 changes. topologyOmitted and changesOmitted count
// the rest. planHash covers all changes.
func TestSetTopologyTruncates(t *testing.T) {
	t.Parallel()
	entries, comparison := make([]v1alpha1.TopologyEntry, 300), plan.Comparison{}
	for i := range entries {
		name := fmt.Sprint(i)
		entries[i] = v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name}
		comparison.Changes = append(comparison.Changes, v1alpha1.Change{Kind: v1alpha1.KindQueue, Name: name})
		comparison.Advisories = append(comparison.Advisories, v1alpha1.Advisory{Name: name})
	}
	comparison.Advisories[0].Message = strings.Repeat("ä", 3000)
	s := reportOn(controllertest.ConsumerQueue(t, `{}`))
	s.setTopology(entries, comparison, plan.Plan{})
	topologytest.Equal(t, "topology", entries[:256], s.status.Topology)
	topologytest.Equal(t, "topology omitted", int32(44), s.status.TopologyOmitted)
	topologytest.Equal(t, "changes", comparison.Changes[:64], s.status.Changes)
	topologytest.Equal(t, "changes omitted", int32(236), s.status.ChangesOmitted)
	topologytest.Equal(t, "advisories", 64, len(s.status.Advisories))
	if message := s.status.Advisories[0].Message; len(message) > 4096 {
		t.Errorf("an advisory has %d bytes", len(message))
	}
	topologytest.Equal(t, "plan hash", plan.Hash(comparison.Changes), s.status.PlanHash)
	topologytest.Equal(t, "last synced", nil, s.status.LastSyncedTime)
}

// lastSyncedTime is when the topology last became in sync, not when it was last compared.
func TestLastSyncedTime(t *testing.T) {
	t.Parallel()
	long := metav1.NewTime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	inSync := summary{ready: conditions.True(v1alpha1.ReasonInSync, "")}
	for name, test := range map[string]struct {
		wasReady metav1.ConditionStatus
		declared bool
		changes  []v1alpha1.Change
		outcome  summary
		moves    bool
	}{
		"in sync as before":             {wasReady: "True", outcome: inSync},
		"in sync again":                 {wasReady: "False", outcome: inSync, moves: true},
		"drift corrected":               {wasReady: "True", declared: true, outcome: inSync, moves: true},
		"drift not corrected":           {wasReady: "True", declared: true, changes: []v1alpha1.Change{{}}, outcome: summaryOfWaiting("Why", "")},
		"no longer in sync":             {wasReady: "True", outcome: summaryOfWaiting("Why", "")},
		"refused, and Ready before":     {wasReady: "True", outcome: summaryOfRefusal("Why", "")},
		"refused, and not Ready before": {wasReady: "False", outcome: summaryOfRefusal("Why", "")},
		"in sync for the first time":    {wasReady: "Unknown", outcome: inSync, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := report{cq: controllertest.ConsumerQueue(t, `{}`), status: &v1alpha1.ConsumerQueueStatus{
				LastSyncedTime: &long,
				Conditions:     []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: test.wasReady}},
			}}
			done := plan.Plan{}
			if test.declared {
				done.Actions = declaringQueue("orders")
			}
			s.setTopology(nil, plan.Comparison{Changes: test.changes}, done)
			s.setConditions(test.outcome)
			topologytest.Equal(t, "moved", test.moves, !s.status.LastSyncedTime.Equal(&long))
			topologytest.Equal(t, "nanoseconds", 0, s.status.LastSyncedTime.Nanosecond())
			topologytest.Equal(t, "observed generation", int64(3), s.status.ObservedGeneration)
		})
	}
}

func TestSetConditions(t *testing.T) {
	t.Parallel()
	drifted, recreation := conditions.True("Drifted", "something"), conditions.True("RecreationRequired", "anything")
	for name, test := range map[string]struct {
		outcome summary
		want    []string
		state   v1alpha1.ObjectState
	}{
		"the topology was compared": {
			outcome: summary{ready: conditions.False("RecreationRequired", "anything"), progress: conditions.Stalled, drifted: &drifted, recreation: &recreation},
			want: []string{
				`Ready=False RecreationRequired "anything", 3`, `Stalled=True RecreationRequired "anything", 3`,
				`Drifted=True Drifted "something", 3`, `RecreationRequired=True RecreationRequired "anything", 3`,
			},
			state: v1alpha1.StateInSync,
		},
		"waiting keeps RecreationRequired and sets every object to Unknown": {
			outcome: summaryOfWaiting("BrokerUnreachable", "no answer"),
			want: []string{
				`Ready=False BrokerUnreachable "no answer", 3`, `Reconciling=True BrokerUnreachable "no answer", 3`,
				`Drifted=Unknown BrokerUnreachable "no answer", 3`, `RecreationRequired=False Old "old", 3`,
			},
			state: v1alpha1.StateUnknown,
		},
		"the spec was refused": {
			outcome: summaryOfRefusal("UnsafeTopology", "it would lose messages"),
			want: []string{
				`Ready=False UnsafeTopology "it would lose messages", 3`, `Stalled=True UnsafeTopology "it would lose messages", 3`,
				`Drifted=Unknown UnsafeTopology "it would lose messages", 3`, `RecreationRequired=Unknown UnsafeTopology "it would lose messages", 3`,
			},
			state: v1alpha1.StateUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := inSyncStatus()
			s := report{cq: controllertest.ConsumerQueue(t, `{}`), status: &status}
			s.setConditions(test.outcome)
			topologytest.Equal(t, "conditions", test.want, controllertest.Lines(status.Conditions), controllertest.AnyOrder)
			topologytest.Equal(t, "state", test.state, status.Topology[0].State)
			topologytest.Equal(t, "hash", "abc", status.Topology[0].LastSyncedHash)
		})
	}
}

// inSyncStatus returns the status of a ConsumerQueue that was in sync with generation 2.
func inSyncStatus() v1alpha1.ConsumerQueueStatus {
	status := v1alpha1.ConsumerQueueStatus{
		ObservedGeneration: 2,
		Topology:           []v1alpha1.TopologyEntry{{Kind: v1alpha1.KindQueue, Name: "orders", State: v1alpha1.StateInSync, LastSyncedHash: "abc"}},
	}
	for condition, value := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady: "True", v1alpha1.ConditionDrifted: "False", v1alpha1.ConditionRecreationRequired: "False",
	} {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: condition, Status: value, Reason: "Old", Message: "old", ObservedGeneration: 2,
		})
	}
	return status
}

func TestNeedsNoRequeue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ready  metav1.ConditionStatus
		states []v1alpha1.ObjectState
		want   bool
	}{
		"ready":     {ready: "True", states: []v1alpha1.ObjectState{v1alpha1.StateInSync}, want: true},
		"not ready": {ready: "False"},
		"unknown":   {ready: "Unknown"},
		"ready, with a foreign binding": {
			ready: "True", states: []v1alpha1.ObjectState{v1alpha1.StateInSync, v1alpha1.StateForeign},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := &v1alpha1.ConsumerQueueStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: test.ready}}}
			for _, state := range test.states {
				status.Topology = append(status.Topology, v1alpha1.TopologyEntry{State: state})
			}
			topologytest.Equal(t, "needs no requeue", test.want, (&report{status: status}).needsNoRequeue())
		})
	}
}

func TestWhenAComparedResourceIsReconciledAgain(t *testing.T) {
	t.Parallel()
	inSync := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	contract := &v1alpha1.ContractSpec{}
	for name, test := range map[string]struct {
		scope    scope
		earliest time.Duration // zero means never
	}{
		"in sync":                              {scope: scope{report: report{status: &v1alpha1.ConsumerQueueStatus{Conditions: inSync}}}},
		"not in sync":                          {earliest: time.Hour},
		"an object is postponed":               {scope: scope{postponedFor: time.Minute}, earliest: time.Minute},
		"an object is postponed for long":      {scope: scope{postponedFor: 2 * time.Hour}, earliest: time.Hour},
		"a recreation waits":                   {scope: scope{recheckIn: 5 * time.Second}, earliest: 5 * time.Second},
		"a contract and a recreation for long": {scope: scope{recheckIn: 30 * time.Minute, report: report{cq: &v1alpha1.ConsumerQueue{Spec: v1alpha1.ConsumerQueueSpec{Contract: contract}}}}, earliest: contractRecheck},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.scope
			if s.cq == nil {
				s.cq = &v1alpha1.ConsumerQueue{}
			}
			if s.status == nil {
				s.status = &v1alpha1.ConsumerQueueStatus{}
			}
			again := s.requeue(time.Hour).RequeueAfter
			if again < test.earliest*9/10 || again > test.earliest*11/10 {
				t.Errorf("after %v, want about %v", again, test.earliest)
			}
		})
	}
}

// The reconciliation ends before it reads the broker.
func TestReconcileNormalWithoutABroker(t *testing.T) {
	t.Parallel()
	connection := func(status metav1.ConditionStatus, reason string, generation int64) *v1alpha1.BrokerConnection {
		bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
		bc.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "the reason", ObservedGeneration: generation,
		}}
		return bc
	}
	suspended := connection("True", "Connected", 3)
	suspended.Spec.Suspend = true
	const kept = `RecreationRequired=False Old "old", 3`
	unchanged := []string{`Ready=True Old "old", 2`, `Drifted=False Old "old", 2`, `RecreationRequired=False Old "old", 2`}
	notReady := func(reason, message string) []string {
		return []string{
			fmt.Sprintf("Ready=False %s %q, 3", reason, message), fmt.Sprintf("Reconciling=True %s %q, 3", reason, message),
			fmt.Sprintf("Drifted=Unknown %s %q, 3", reason, message), kept,
		}
	}
	asSuspended := func(message string) []string {
		return []string{
			`Ready=True Old "old", 3`, `Drifted=False Old "old", 3`, kept, fmt.Sprintf("Suspended=True Suspended %q, 3", message),
		}
	}
	for name, test := range map[string]struct {
		spec  string
		known *v1alpha1.BrokerConnection
		// seen reports whether this generation was reconciled before.
		seen bool
		want []string
	}{
		"no BrokerConnection": {
			spec: `{}`,
			want: notReady("ConnectionNotReady", `BrokerConnection "default" not found in namespace "shop": create it, or name another in spec.connectionRef`),
		},
		"no BrokerConnection with the name of spec.connectionRef": {
			spec: `{connectionRef: {name: other}}`, known: connection("True", "Connected", 3),
			want: notReady("ConnectionNotReady", `BrokerConnection "other" not found in namespace "shop": create it, or name another in spec.connectionRef`),
		},
		"suspended":                         {spec: `{suspend: true}`, want: asSuspended("spec.suspend is true: Warren neither reads nor changes the objects of this resource")},
		"the BrokerConnection is suspended": {spec: `{}`, known: suspended, want: asSuspended(`BrokerConnection "default" is suspended`)},
		"the broker is unreachable": {
			spec: `{}`, known: connection("False", "BrokerUnreachable", 3), seen: true,
			want: notReady("BrokerUnreachable", `BrokerConnection "default" cannot reach its broker. See the status of the BrokerConnection`),
		},
		"the Secret is missing": {
			spec: `{}`, known: connection("False", "SecretNotFound", 3), seen: true,
			want: notReady("ConnectionNotReady", `BrokerConnection "default" is not ready: the reason`),
		},
		"the BrokerConnection is connecting": {spec: `{}`, known: connection("Unknown", "Connecting", 3), seen: true, want: unchanged},
		"the BrokerConnection was not ready before its spec changed": {
			spec: `{}`, known: connection("False", "SecretNotFound", 2), seen: true, want: unchanged,
		},
		"a new generation while the BrokerConnection is connecting": {
			spec: `{}`, known: connection("Unknown", "Connecting", 3),
			want: notReady("ConnectionNotReady", `BrokerConnection "default" is connecting`),
		},
		"a new generation while Warren starts": {
			spec: `{}`, known: connection("True", "Connected", 3),
			want: notReady("ConnectionNotReady", `BrokerConnection "default" is connecting`),
		},
		"Warren starts": {spec: `{}`, known: connection("True", "Connected", 3), seen: true, want: unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if test.known != nil {
				objects = append(objects, test.known)
			}
			c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes}, objects...)
			cq := controllertest.ConsumerQueue(t, test.spec)
			cq.Status = inSyncStatus()
			if test.seen {
				cq.Status.ObservedGeneration = cq.Generation
			}
			removals := brokers.NewDeletionTasks(t.Context(), controllertest.NewEnqueued().Enqueue)
			r := &Reconciler{
				client: c, pool: brokers.NewPool(c, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0, nil)), deletions: removals,
				recreations: newRecreationTasks(t.Context(), func(client.ObjectKey) {}),
			}
			s := &scope{Reconciler: r, report: reportOn(cq)}
			result, err := s.reconcileNormal(t.Context())
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "result", ctrl.Result{}, result.Result)
			topologytest.Equal(t, "conditions", test.want, controllertest.Lines(s.status.Conditions), controllertest.AnyOrder)
			topologytest.Equal(t, "observed generation", cq.Generation, s.status.ObservedGeneration)
			topologytest.Equal(t, "queue name", "orders", s.status.QueueName)
			topologytest.Equal(t, "connection name", cq.ConnectionName(), s.status.ConnectionName)
			topologytest.Equal(t, "events", 0, len(s.events))
		})
	}
}

// The condition Suspended is removed when a resource is not suspended any more.
func TestSuspendedIsRemoved(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, `{}`)
	cq.Status = inSyncStatus()
	conditions.For(&cq.Status.Conditions, 2).SetSuspended("spec.suspend is set")
	c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes})
	s := &scope{Reconciler: &Reconciler{client: c}, report: reportOn(cq)}
	_, err := s.reconcileNormal(t.Context())
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "suspended", false, s.isTrue(v1alpha1.ConditionSuspended))
	topologytest.Equal(t, "reconciling", true, s.isTrue(v1alpha1.ConditionReconciling))
}

func TestReconcileNormalFails(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, `{}`)
	s := &scope{Reconciler: &Reconciler{client: controllertest.BrokenClient(t)}, report: reportOn(cq)}
	_, err := s.reconcileNormal(t.Context())
	if err == nil || err.Error() != `get BrokerConnection "default": the API server is down` {
		t.Errorf("error is %v", err)
	}
}

// After its end, Warren could not delete what was declared through it.
func TestNothingIsDeclaredThroughADeletedBrokerConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
	if err := w.api.Delete(t.Context(), w.connection()); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile()
	ready := conditions.Ready(w.get().Status.Conditions)
	topologytest.Equal(t, "reason", v1alpha1.ReasonConnectionNotReady, ready.Reason)
	topologytest.Equal(t, "message", `BrokerConnection "default" is being deleted: nothing new is declared through it`, ready.Message)
	topologytest.Equal(t, "declared", false, w.hasQueue("orders"))
}
