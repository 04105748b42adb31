package ownership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	withGrave    = `{deadLetter: {queue: {name: grave}}}`
	withBigGrave = `{deadLetter: {queue: {name: grave, maxLength: 5}}}`
	// unknownSpec is the spec of a ConsumerQueue that Warren refuses.
	unknownSpec = `{retry: {delayTiers: [{delay: later}]}}`
)

// here is the location of the topologies of controllertest.Synced.
var here = Location{Cluster: vhost.Cluster{Name: "rabbit@a", Endpoint: "mq:5672"}, VHost: "/"}

func leadsHere(*v1alpha1.ConsumerQueue) Location { return here }

// indexOf returns an index of ConsumerQueues with different UIDs.
func indexOf(resources ...*v1alpha1.ConsumerQueue) *Index {
	index := NewIndex()
	for _, cq := range resources {
		cq.UID = types.UID("uid of " + cq.Name)
		index.Update(cq)
	}
	return index
}

// viewOf returns the view of a ConsumerQueue on others at the same location.
func viewOf(cq *v1alpha1.ConsumerQueue, others ...*v1alpha1.ConsumerQueue) View {
	return indexOf(others...).View(cq, here, topologytest.V43, leadsHere)
}

func entryOf(t *testing.T, cq *v1alpha1.ConsumerQueue, name string) v1alpha1.TopologyEntry {
	t.Helper()
	for _, entry := range cq.Status.Topology {
		if entry.Name == name {
			return entry
		}
	}
	t.Fatalf("there is no %s", name)
	return v1alpha1.TopologyEntry{}
}

// A deleted ConsumerQueue leaves an object to a peer that has it, or can use it in its current form. A ConsumerQueue that no
// longer uses the object leaves it to a peer that does.
func TestHeldAndNeeded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		other       *v1alpha1.ConsumerQueue
		held, needs bool
	}{
		"it has the object":                             {controllertest.Synced(t, "other", withGrave, ""), true, true},
		"it wants the object, just so":                  {controllertest.Named(t, "shop", "other", withGrave), true, true},
		"it wants the object with other settings":       {controllertest.Named(t, "shop", "other", withBigGrave), false, false},
		"it has the object and wants other settings":    {controllertest.Synced(t, "other", withGrave, withBigGrave), true, true},
		"it has the object, its spec is not understood": {controllertest.Synced(t, "other", withGrave, unknownSpec), true, true},
		"it has the object and no use for it":           {controllertest.Synced(t, "other", withGrave, `{}`), true, false},
		"it has the object and is being deleted":        {controllertest.BeingDeleted(controllertest.Synced(t, "other", withGrave, "")), true, false},
		"it wanted the object and is being deleted":     {controllertest.BeingDeleted(controllertest.Named(t, "shop", "other", withGrave)), false, false},
		"it has nothing to do with the object":          {controllertest.Named(t, "shop", "other", `{}`), false, false},
	} {
		own := controllertest.Synced(t, "own", withGrave, "")
		entry, view := entryOf(t, own, "grave"), viewOf(own, test.other)
		holder := ""
		if test.held {
			holder = "ConsumerQueue shop/other"
		}
		topologytest.Equal(t, name+": held by", holder, view.SharedWith(entry))
		topologytest.Equal(t, name+": needed", test.needs, view.AnyNeeds(entry))
		terminating := !test.other.DeletionTimestamp.IsZero()
		topologytest.Equal(t, name+": held by an active one", test.held && !terminating, view.Active().SharedWith(entry) != "")
	}
}

// With hundreds of peers, the first active one answers for all, and deleted ones are not checked.
func TestSharedByMany(t *testing.T) {
	t.Parallel()
	own := controllertest.Synced(t, "own", withGrave, "")
	var staying, leaving []*v1alpha1.ConsumerQueue
	for number := range 100 {
		staying = append(staying, controllertest.Synced(t, fmt.Sprintf("staying-%03d", number), withGrave, ""))
		leaving = append(leaving, controllertest.BeingDeleted(controllertest.Synced(t, fmt.Sprintf("leaving-%03d", number), withGrave, "")))
	}
	for name, test := range map[string]struct {
		others               []*v1alpha1.ConsumerQueue
		holder, activeHolder string
		asked, askedOfActive int
		needed               bool
		askedForNeed         int
	}{
		"all stay":           {staying, "shop/staying-000", "shop/staying-000", 1, 1, true, 1},
		"all go":             {leaving, "shop/leaving-000", "", 1, 0, false, 0},
		"some stay, some go": {append(leaving, staying...), "shop/staying-000", "shop/staying-000", 1, 1, true, 1},
	} {
		asked := 0
		view := indexOf(test.others...).View(own, here, topologytest.V43, func(*v1alpha1.ConsumerQueue) Location {
			asked++
			return here
		})
		counted := func() (count int) {
			count, asked = asked, 0
			return count
		}
		entry := entryOf(t, own, "grave")
		topologytest.Equal(t, name+": holder", test.holder, strings.TrimPrefix(view.SharedWith(entry), "ConsumerQueue "))
		topologytest.Equal(t, name+": asked", test.asked, counted())
		topologytest.Equal(t, name+": holder that stays", test.activeHolder, strings.TrimPrefix(view.Active().SharedWith(entry), "ConsumerQueue "))
		topologytest.Equal(t, name+": asked of those that stay", test.askedOfActive, counted())
		topologytest.Equal(t, name+": needed", test.needed, view.AnyNeeds(entry))
		topologytest.Equal(t, name+": asked whether they need it", test.askedForNeed, counted())
	}
}

// Peers are found by the location of their connections, in all namespaces.
func TestWants(t *testing.T) {
	t.Parallel()
	const shared = `{retry: {policy: None}, bindings: [{exchange: {name: events}, routingKeys: [a]}], deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	own := controllertest.Named(t, "shop", "orders", `{retry: {policy: None}, deadLetter: {exchange: {name: mine}, queue: {name: dlq}}}`)
	index := indexOf(own,
		controllertest.Named(t, "shop", "invoices", shared),
		controllertest.Named(t, "shop", "unsupported", `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 2s}}, deadLetter: {exchange: {name: never}, queue: {name: dlq}}}`),
		controllertest.Named(t, "shop", "other", `{connectionRef: {name: other}, deadLetter: {exchange: {name: others}, queue: {name: dlq}}}`),
		controllertest.Named(t, "elsewhere", "invoices", `{deadLetter: {exchange: {name: afar}, queue: {name: dlq}}}`),
		controllertest.Named(t, "unconnected", "invoices", `{deadLetter: {exchange: {name: others}, queue: {name: dlq}}}`),
	)
	locate := func(cq *v1alpha1.ConsumerQueue) Location {
		switch {
		case cq.Namespace == "unconnected":
			return Location{}
		case cq.Name == "other":
			return Location{Cluster: here.Cluster, VHost: "other"}
		}
		return here
	}
	view := index.View(own, here, topologytest.V40, locate)
	for name, test := range map[string]struct {
		binding topology.Binding
		want    bool
	}{
		"by another":                             {topology.Binding{Source: "dlx", Destination: "dlq"}, true},
		"by another, with another key":           {topology.Binding{Source: "dlx", Destination: "dlq", RoutingKey: "a"}, false},
		"from another namespace, in this vhost":  {topology.Binding{Source: "afar", Destination: "dlq"}, true},
		"in another vhost, or in an unknown one": {topology.Binding{Source: "others", Destination: "dlq"}, false},
		"by one that the broker is too old for":  {topology.Binding{Source: "never", Destination: "dlq"}, false},
		"by no ConsumerQueue":                    {topology.Binding{Source: "dlx", Destination: "orders"}, false},
		"by itself":                              {topology.Binding{Source: "mine", Destination: "dlq"}, false},
	} {
		topologytest.Equal(t, name, test.want, view.Wants(test.binding.ID()))
	}
	names := map[string]string{}
	for p := range view.holders(vhost.QueueID("dlq")) {
		names[p.Name] = p.displayName()
	}
	topologytest.Equal(t, "peers", map[string]string{
		"elsewhere/invoices": "a ConsumerQueue in another namespace", "shop/invoices": "ConsumerQueue shop/invoices",
		"shop/unsupported": "ConsumerQueue shop/unsupported",
	}, names)
}

// A tenant can put any location into the statuses of its namespace, through its own management API or forged intents.
func TestTheStatusOfAnotherNamespaceProvesNothing(t *testing.T) {
	t.Parallel()
	own := controllertest.Synced(t, "own", withKey("a"), "")
	theirs := controllertest.Synced(t, "theirs", withKey("b"), "")
	theirs.Namespace = "evil"
	grave := entryOf(t, own, "grave")
	type answers struct {
		Conflict, Needs, Shares bool
		SharedWith              string
		Unwanted                []string
	}
	for name, test := range map[string]struct {
		leads Location
		want  answers
	}{
		"where the connection was not proven to lead here": {Location{}, answers{Unwanted: []string{"b"}}},
		"where it was": {here, answers{
			Conflict: true, Needs: true, Shares: true, SharedWith: "a ConsumerQueue in another namespace",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rival := controllertest.Synced(t, "rival", `{queue: {name: pay}}`, "")
			rival.Namespace = "evil"
			newcomer := controllertest.Named(t, "shop", "newcomer", `{queue: {name: pay}}`)
			own := own.DeepCopy() // indexOf changes it
			index := indexOf(own, theirs.DeepCopy(), rival, newcomer)
			locate := func(cq *v1alpha1.ConsumerQueue) Location {
				if cq.Namespace == "evil" {
					return test.leads
				}
				return here
			}
			view := index.View(own, here, topologytest.V43, locate)
			conflict, err := index.View(newcomer, here, topologytest.V43, locate).FindConflict(t.Context(),
				CandidateOf(newcomer, topologytest.V43), controllertest.Client(t, nil, rival))
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "answers", test.want, answers{
				Conflict: conflict != nil, Needs: view.AnyNeeds(grave), Shares: view.Shares("grave"), SharedWith: view.SharedWith(grave),
				Unwanted: unwantedKeys(view, bound("a", "b"), "a"),
			})
		})
	}
}

// A tenant has a ConsumerQueue in sync at its own broker, suspends it, and then leads its connection to the shared vhost. Its broker had a
// vhost of the same name, and returned the ID of the shared cluster.
func TestAStatusFromAnotherBrokerProvesNothing(t *testing.T) {
	t.Parallel()
	const spec = `{queue: {name: orders}, deadLetter: {exchange: {name: dead, type: direct}}}`
	shared := Location{Cluster: vhost.Cluster{ID: "sha256:1", Name: "rabbit@a", Endpoint: "mq:5672"}, VHost: "/"}
	synced := func(namespace, name, spec, endpoint string) *v1alpha1.ConsumerQueue {
		cq := at(t, namespace, name, spec, true)
		recorded := shared
		recorded.Cluster.Endpoint = endpoint
		recorded.Record(&cq.Status.Location)
		return cq
	}
	victim := func() *v1alpha1.ConsumerQueue { return synced("shop", "orders", spec, "mq:5672") }
	rival := func(endpoint string) *v1alpha1.ConsumerQueue { return older(synced("evil", "orders", spec, endpoint)) }
	thief := func(endpoint string) *v1alpha1.ConsumerQueue {
		return older(synced("evil", "thief", `{queue: {name: thief}, deadLetter: {queue: {name: orders.dlq}}}`, endpoint))
	}
	router := older(synced("evil", "router", `{queue: {name: router}, deadLetter: {exchange: {name: dead, type: direct}, queue: {name: router.dlq}, routingKey: orders.dlq}}`,
		"evil:5672"))
	edited := victim()
	for i := range edited.Status.Topology {
		edited.Status.Topology[i].LastSyncedHash = "of the spec before"
	}
	newcomer := at(t, "shop", "invoices", `{queue: {name: invoices}, deadLetter: {queue: {name: orders.dlq}}}`, false)
	for name, test := range map[string]struct {
		own      *v1alpha1.ConsumerQueue
		others   []*v1alpha1.ConsumerQueue
		address  string
		conflict bool
		shared   []string
	}{
		"the victim": {own: victim(), others: []*v1alpha1.ConsumerQueue{rival("evil:5672"), thief("evil:5672")}, address: "mq:5672"},
		"the victim, from whose exchange the tenant claims a binding": {
			own: victim(), others: []*v1alpha1.ConsumerQueue{router}, address: "mq:5672",
		},
		"the victim, whose spec has changed": {own: edited, others: []*v1alpha1.ConsumerQueue{rival("evil:5672")}, address: "mq:5672"},
		"another ConsumerQueue of the victim's namespace": {
			own: newcomer, others: []*v1alpha1.ConsumerQueue{victim(), thief("evil:5672")}, address: "mq:5672",
			shared: []string{"orders", "orders.dlq"},
		},
		"the tenant": {
			own: rival("evil:5672"), others: []*v1alpha1.ConsumerQueue{victim()}, address: "mq:5672",
			conflict: true, shared: []string{"orders", "orders.dlq"},
		},
		"the tenant, at another address of the broker": {
			own: rival("evil:5672"), others: []*v1alpha1.ConsumerQueue{victim()}, address: "ip:5672",
			conflict: true, shared: []string{"orders", "orders.dlq"},
		},
		"the tenant, without consent": {
			own: thief("evil:5672"), others: []*v1alpha1.ConsumerQueue{victim()}, address: "mq:5672",
			conflict: true, shared: []string{"orders", "orders.dlq"},
		},
		"a holder that has had the queue here": {
			own: victim(), others: []*v1alpha1.ConsumerQueue{rival("mq:5672")}, address: "mq:5672",
			conflict: true, shared: []string{"orders", "orders.dlq"},
		},
		"a newcomer meets a holder at another address": {
			own: at(t, "shop", "orders", spec, false), others: []*v1alpha1.ConsumerQueue{rival("ip:5672")}, address: "mq:5672",
			conflict: true, shared: []string{"orders", "orders.dlq"},
		},
		"the address proves nothing": {
			own: victim(), others: []*v1alpha1.ConsumerQueue{rival("evil:5672")}, conflict: true, shared: []string{"orders", "orders.dlq"},
		},
		"the connection of the holder moved, and another ConsumerQueue shares its queue": {
			own: victim(), others: []*v1alpha1.ConsumerQueue{adopting(thief("ip:5672"))}, address: "ip:5672", shared: []string{"orders.dlq"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := indexed(append(test.others, test.own)...).View(test.own, shared, topologytest.V43, func(*v1alpha1.ConsumerQueue) Location {
				return shared
			}).OpenedAt(test.address)
			var objects []client.Object
			for _, cq := range test.others {
				objects = append(objects, cq.DeepCopy())
			}
			conflict, err := view.FindConflict(t.Context(), CandidateOf(test.own, topologytest.V43), controllertest.Client(t, nil, objects...))
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "conflict", test.conflict, conflict != nil)
			var found []string
			for _, queue := range []string{"orders", "orders.dlq"} {
				if view.SharedWith(v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: queue}) != "" {
					found = append(found, queue)
				}
			}
			topologytest.Equal(t, "shared", test.shared, found)
		})
	}
}

// A user who can edit a ConsumerQueue can write any object into its intents.
func TestForgedIntentsGainNoMoreThanTheSpec(t *testing.T) {
	t.Parallel()
	own := controllertest.Synced(t, "orders", `{retry: {delayTiers: [{delay: 1m}]}}`, "")
	for name, test := range map[string]struct {
		namespace, spec, want string
	}{
		"by a spec that does not want the object": {"evil", `{queue: {name: other}}`, ""},
		"by a spec that wants it":                 {"evil", `{queue: {name: orders}}`, ""},
		"in the same namespace":                   {"shop", `{queue: {name: other}}`, "ConsumerQueue shop/theirs"},
	} {
		theirs := controllertest.Named(t, test.namespace, "theirs", test.spec)
		theirs.Status.Topology = []v1alpha1.TopologyEntry{{
			Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, Origin: v1alpha1.OriginDeclared, State: v1alpha1.StateUnknown,
		}}
		topologytest.Equal(t, name, test.want, viewOf(own, theirs).SharedWith(entryOf(t, own, "orders")))
	}
}

// If a ConsumerQueue wins only because a peer is not known to hold the object, the view reads the peer from the API server.
func TestFindConflictReadsWhatTheCacheMayNotKnow(t *testing.T) {
	t.Parallel()
	const message = `ConsumerQueue shop/other has the dead-letter queue "grave" with other settings`
	own := controllertest.Named(t, "shop", "orders", withBigGrave)
	server := func(objects ...client.Object) client.Reader { return controllertest.Client(t, nil, objects...) }
	broken := controllertest.ClientBuilder(t, nil).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the API server is tired")
		},
	}).Build()
	newcomer, held := controllertest.Named(t, "shop", "other", withGrave), controllertest.Synced(t, "other", withGrave, "")
	perhapsHere := held.DeepCopy()
	perhapsHere.Status.Location.ClusterEndpoint = "green:5672"
	nowhere := Location{}
	for name, test := range map[string]struct {
		cached *v1alpha1.ConsumerQueue
		leads  Location
		live   client.Reader
		loses  bool
		err    string
	}{
		"no ConsumerQueue names other settings":     {controllertest.Named(t, "shop", "other", `{}`), here, broken, false, ""},
		"it is known to be held":                    {held, here, broken, true, ""},
		"it is held, perhaps at another cluster":    {perhapsHere, nowhere, broken, false, ""},
		"it is held, as the API server knows":       {newcomer, here, server(held), true, ""},
		"it is held here, as the API server knows":  {newcomer, nowhere, server(held), true, ""},
		"it is held elsewhere, as the server knows": {newcomer, nowhere, server(perhapsHere), false, ""},
		"it is not held":                            {newcomer, here, server(newcomer.DeepCopy()), false, ""},
		"the other does not want it any more":       {newcomer, here, server(controllertest.Named(t, "shop", "other", `{}`)), false, ""},
		"the other is gone":                         {newcomer, here, server(), false, ""},
		"the API server does not answer":            {newcomer, here, broken, false, "get ConsumerQueue shop/other: the API server is tired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := indexOf(test.cached.DeepCopy()).View(own, here, topologytest.V43, func(*v1alpha1.ConsumerQueue) Location { return test.leads })
			conflict, err := view.FindConflict(t.Context(), CandidateOf(own, topologytest.V43), test.live)
			problem := ""
			if conflict != nil {
				topologytest.Equal(t, "message", message, conflict.Message[:len(message)])
			}
			if err != nil {
				problem = err.Error()
			}
			topologytest.Equal(t, "conflict", test.loses, conflict != nil)
			topologytest.Equal(t, "error", test.err, problem)
		})
	}
}

// A deleted ConsumerQueue has a right only to objects that it holds, whatever its age.
func TestFindConflictWithATerminatingPeer(t *testing.T) {
	t.Parallel()
	young := controllertest.Named(t, "shop", "young", withGrave)
	young.CreationTimestamp = metav1.NewTime(time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC))
	for name, test := range map[string]struct {
		old   *v1alpha1.ConsumerQueue
		loses bool
	}{
		"an older newcomer":                         {controllertest.Named(t, "shop", "old", withBigGrave), true},
		"an older newcomer that is being deleted":   {controllertest.BeingDeleted(controllertest.Named(t, "shop", "old", withBigGrave)), false},
		"an older holder that is being deleted":     {controllertest.BeingDeleted(controllertest.Synced(t, "old", withBigGrave, "")), true},
		"one that has let go of everything already": {withoutFinalizer(controllertest.BeingDeleted(controllertest.Synced(t, "old", withBigGrave, ""))), false},
	} {
		test.old.CreationTimestamp = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		conflict, err := viewOf(young, test.old).FindConflict(t.Context(), CandidateOf(young, topologytest.V43), controllertest.Client(t, nil, young))
		topologytest.Equal(t, name+": error", nil, err)
		topologytest.Equal(t, name, test.loses, conflict != nil)
	}
}

func withoutFinalizer(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	cq.Finalizers = nil
	return cq
}

// If a peer is removed during an iteration, the iteration still returns all later peers.
func TestPeerRemovedDuringAnIteration(t *testing.T) {
	t.Parallel()
	own := controllertest.Named(t, "shop", "own", withGrave)
	first, second := controllertest.Synced(t, "a", withBigGrave, ""), controllertest.Synced(t, "b", withBigGrave, "")
	third := controllertest.Synced(t, "c", withBigGrave, "")
	index := indexOf(first, second, third)
	view := index.View(own, here, topologytest.V43, func(*v1alpha1.ConsumerQueue) Location {
		index.Remove(client.ObjectKeyFromObject(second))
		return here
	})
	var names []string
	for _, rival := range view.disputing() {
		names = append(names, rival.Name)
	}
	topologytest.Equal(t, "rivals", []string{"shop/a", "shop/c"}, names)
}
