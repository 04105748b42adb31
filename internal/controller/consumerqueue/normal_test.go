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

func TestCut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list    []int
		want    []int
		omitted int32
	}{
		"nothing":     {},
		"less":        {list: []int{1}, want: []int{1}},
		"just enough": {list: []int{1, 2}, want: []int{1, 2}},
		"too much":    {list: []int{1, 2, 3, 4}, want: []int{1, 2}, omitted: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, omitted := head(test.list, 2)
			topologytest.Equal(t, "list", test.want, got)
			topologytest.Equal(t, "omitted", test.omitted, omitted)
		})
	}
}

// The status holds no more than its schema admits: topology at most 256, topologyOmitted counts the rest; changes at most 64,
// changesOmitted counts the rest. planHash is made of all changes, also those that the list leaves out.
func TestDescribeCutsToSize(t *testing.T) {
	t.Parallel()
	entries, comparison := make([]v1alpha1.TopologyEntry, 300), plan.Comparison{}
	for i := range entries {
		name := fmt.Sprint(i)
		entries[i] = v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name}
		comparison.Changes = append(comparison.Changes, v1alpha1.Change{Kind: v1alpha1.KindQueue, Name: name})
		comparison.Advisories = append(comparison.Advisories, v1alpha1.Advisory{Name: name, Message: strings.Repeat("ä", 3000)})
	}
	look := reportOn(controllertest.ConsumerQueue(t, `{}`))
	topologytest.Equal(t, "error", nil, look.setTopology(entries, comparison, plan.Plan{}))
	topologytest.Equal(t, "topology", entries[:256], look.status.Topology)
	topologytest.Equal(t, "topology omitted", int32(44), look.status.TopologyOmitted)
	topologytest.Equal(t, "changes", comparison.Changes[:64], look.status.Changes)
	topologytest.Equal(t, "changes omitted", int32(236), look.status.ChangesOmitted)
	topologytest.Equal(t, "advisories", 64, len(look.status.Advisories))
	if message := look.status.Advisories[0].Message; len(message) > 4096 {
		t.Errorf("an advisory of %d bytes", len(message))
	}
	hash, err := plan.Hash(comparison.Changes)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "plan hash", hash, look.status.PlanHash)
	topologytest.Equal(t, "last synced", nil, look.status.LastSyncedTime)
}

// lastSyncedTime is when the topology last became in sync, not when it was last looked at.
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
		"in sync as before":                 {wasReady: "True", outcome: inSync},
		"in sync again":                     {wasReady: "False", outcome: inSync, moves: true},
		"drift corrected":                   {wasReady: "True", declared: true, outcome: inSync, moves: true},
		"drift not corrected":               {wasReady: "True", declared: true, changes: []v1alpha1.Change{{}}, outcome: summaryOfWaiting("Why", "")},
		"no longer in sync":                 {wasReady: "True", outcome: summaryOfWaiting("Why", "")},
		"ready for a reason of long ago":    {wasReady: "True", outcome: summaryOfRefusal("Why", "")},
		"not in sync before and not now":    {wasReady: "False", outcome: summaryOfRefusal("Why", "")},
		"in sync, and it was not looked at": {wasReady: "Unknown", outcome: inSync, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := report{cq: controllertest.ConsumerQueue(t, `{}`), status: &v1alpha1.ConsumerQueueStatus{
				LastSyncedTime: &long,
				Conditions:     []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: test.wasReady}},
			}}
			done := plan.Plan{}
			if test.declared {
				done.Actions = declaringQueue("orders")
			}
			topologytest.Equal(t, "error", nil, look.setTopology(nil, plan.Comparison{Changes: test.changes}, done))
			look.setConditions(test.outcome)
			topologytest.Equal(t, "moved", test.moves, !look.status.LastSyncedTime.Equal(&long))
			topologytest.Equal(t, "nanoseconds", 0, look.status.LastSyncedTime.Nanosecond())
			topologytest.Equal(t, "observed generation", int64(3), look.status.ObservedGeneration)
		})
	}
}

func TestConclude(t *testing.T) {
	t.Parallel()
	drifted, recreation := conditions.True("Drifted", "something"), conditions.True("RecreationRequired", "anything")
	for name, test := range map[string]struct {
		outcome summary
		want    []string
		state   v1alpha1.ObjectState
	}{
		"compared": {
			outcome: summary{ready: conditions.False("RecreationRequired", "anything"), progress: conditions.Stalled, drifted: &drifted, recreation: &recreation},
			want: []string{
				`Ready=False RecreationRequired "anything", 3`, `Stalled=True RecreationRequired "anything", 3`,
				`Drifted=True Drifted "something", 3`, `RecreationRequired=True RecreationRequired "anything", 3`,
			},
			state: v1alpha1.StateInSync,
		},
		"waiting keeps whether recreation is required, and knows of no object how it is": {
			outcome: summaryOfWaiting("BrokerUnreachable", "no answer"),
			want: []string{
				`Ready=False BrokerUnreachable "no answer", 3`, `Reconciling=True BrokerUnreachable "no answer", 3`,
				`Drifted=Unknown BrokerUnreachable "no answer", 3`, `RecreationRequired=False Old "old", 3`,
			},
			state: v1alpha1.StateUnknown,
		},
		"refused": {
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
			look := report{cq: controllertest.ConsumerQueue(t, `{}`), status: &status}
			look.setConditions(test.outcome)
			topologytest.Equal(t, "conditions", test.want, controllertest.Lines(status.Conditions), controllertest.AnyOrder)
			topologytest.Equal(t, "state", test.state, status.Topology[0].State)
			topologytest.Equal(t, "hash", "abc", status.Topology[0].LastSyncedHash)
		})
	}
}

// inSyncStatus is the status of a ConsumerQueue that was in sync, with generation 2.
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

func TestSettled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ready  metav1.ConditionStatus
		states []v1alpha1.ObjectState
		want   bool
	}{
		"ready":     {ready: "True", states: []v1alpha1.ObjectState{v1alpha1.StateInSync}, want: true},
		"not ready": {ready: "False"},
		"unknown":   {ready: "Unknown"},
		"ready, with a binding that another may come to want": {
			ready: "True", states: []v1alpha1.ObjectState{v1alpha1.StateInSync, v1alpha1.StateForeign},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := &v1alpha1.ConsumerQueueStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: test.ready}}}
			for _, state := range test.states {
				status.Topology = append(status.Topology, v1alpha1.TopologyEntry{State: state})
			}
			topologytest.Equal(t, "settled", test.want, (&report{status: status}).needsNoRequeue())
		})
	}
}

// A look that does not get as far as the broker.
func TestLookWithoutABroker(t *testing.T) {
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
		// seen says that this generation was looked at before.
		seen bool
		want []string
	}{
		"no BrokerConnection": {
			spec: `{}`,
			want: notReady("ConnectionNotReady", `BrokerConnection "default" not found in namespace "shop": create it, or name another in spec.connectionRef`),
		},
		"no BrokerConnection of the name given": {
			spec: `{connectionRef: {name: other}}`, known: connection("True", "Connected", 3),
			want: notReady("ConnectionNotReady", `BrokerConnection "other" not found in namespace "shop": create it, or name another in spec.connectionRef`),
		},
		"suspended":                         {spec: `{suspend: true}`, want: asSuspended("spec.suspend is set: the broker is neither read nor written for this resource")},
		"the BrokerConnection is suspended": {spec: `{}`, known: suspended, want: asSuspended(`BrokerConnection "default" is suspended`)},
		"the broker is unreachable": {
			spec: `{}`, known: connection("False", "BrokerUnreachable", 3), seen: true,
			want: notReady("BrokerUnreachable", `BrokerConnection "default" cannot reach its broker: its status says why`),
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
		"a new generation while the operator starts": {
			spec: `{}`, known: connection("True", "Connected", 3),
			want: notReady("ConnectionNotReady", `BrokerConnection "default" is connecting`),
		},
		"the operator starts": {spec: `{}`, known: connection("True", "Connected", 3), seen: true, want: unchanged},
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
			removals := brokers.NewDeletionTasks(t.Context(), controllertest.NewTold().Tell)
			r := &Reconciler{client: c, pool: brokers.NewPool(c, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0)), deletions: removals}
			look := &scope{Reconciler: r, report: reportOn(cq)}
			result, err := look.reconcileNormal(t.Context())
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "result", ctrl.Result{}, result)
			topologytest.Equal(t, "conditions", test.want, controllertest.Lines(look.status.Conditions), controllertest.AnyOrder)
			topologytest.Equal(t, "observed generation", cq.Generation, look.status.ObservedGeneration)
			topologytest.Equal(t, "queue name", "orders", look.status.QueueName)
			topologytest.Equal(t, "connection name", cq.ConnectionName(), look.status.ConnectionName)
			topologytest.Equal(t, "events", 0, len(look.events))
		})
	}
}

// What was suspended and is looked at again is no longer said to be.
func TestLookResumes(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, `{}`)
	cq.Status = inSyncStatus()
	conditions.For(&cq.Status.Conditions, 2).SetSuspended("spec.suspend is set")
	c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes})
	look := &scope{Reconciler: &Reconciler{client: c}, report: reportOn(cq)}
	_, err := look.reconcileNormal(t.Context())
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "suspended", metav1.ConditionUnknown, look.condition(v1alpha1.ConditionSuspended))
	topologytest.Equal(t, "reconciling", metav1.ConditionTrue, look.condition(v1alpha1.ConditionReconciling))
}

func TestLookFails(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, `{}`)
	look := &scope{Reconciler: &Reconciler{client: controllertest.BrokenClient(t)}, report: reportOn(cq)}
	_, err := look.reconcileNormal(t.Context())
	if err == nil || err.Error() != `get BrokerConnection "default": the API server is tired` {
		t.Errorf("error is %v", err)
	}
}
