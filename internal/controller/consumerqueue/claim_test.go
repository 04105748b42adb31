package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// writer records the writes of a manager to the API server. It can make them fail.
type writer struct {
	written []string
	// dies is the last write that succeeds: after it the manager is dead and no write arrives.
	dies string
	dead bool
}

var errKilled = errors.New("killed")

func (w *writer) write(name string, write func() error) error {
	if w.dead {
		return errKilled
	}
	w.written = append(w.written, name)
	w.dead = name == w.dies
	return write()
}

// startWriting restarts the manager and records its writes. The manager is dead after the write that the argument dies names, unless dies
// is empty.
func (w *world) startWriting(dies string) *writer {
	w.t.Helper()
	of, api := &writer{dies: dies}, w.api
	w.api = interceptor.NewClient(api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			applied := (&client.PatchOptions{}).ApplyOptions(options)
			topologytest.Equal(w.t, "field manager", "warren", applied.FieldManager)
			return of.write("metadata", func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return of.write(sub, func() error { return c.SubResource(sub).Update(ctx, object, options...) })
		},
	})
	w.restart()
	w.api = api
	return of
}

const threeQueues = `{retry: {delayTiers: [{delay: 30s}]}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`

// A new ConsumerQueue costs two writes and one Event.
func TestTwoWritesForANewConsumerQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
	manager := w.startWriting("")
	occurred, err := w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "writes", []string{"metadata", "status"}, manager.written)
	topologytest.Equal(t, "events", []occurrence{{"Normal", "Declared", "Declare", "declared 1 exchange, 3 queues and 1 binding"}}, occurred, comparingOccurrences)
	cq := w.get()
	topologytest.Equal(t, "reason", v1alpha1.ReasonInSync, conditions.Ready(cq.Status.Conditions).Reason)
	topologytest.Equal(t, "finalizer", true, controllerutil.ContainsFinalizer(cq, v1alpha1.TopologyFinalizer))
	for _, entry := range topology.Owned(cq.Status.Topology) {
		topologytest.Equal(t, entry.Name+" is an intent", false, topology.Intended(entry))
	}
	if text := cq.Annotations[v1alpha1.IntentsAnnotation]; len(text) > 700 {
		t.Errorf("the annotation has %d bytes: %s", len(text), text)
	}
	_, err = w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "writes after another reconciliation", 2, len(manager.written))
}

// If the intents do not fit into an annotation, or the finalizer exists already, the status records them.
func TestThreeWritesIfTheStatusRecordsTheIntents(t *testing.T) {
	t.Parallel()
	var bindings []string
	for i := range 200 {
		bindings = append(bindings, fmt.Sprintf("{exchange: {name: events, type: topic}, routingKeys: ['%s%d']}", strings.Repeat("x", 200), i))
	}
	protected := controllertest.NewConsumerQueue(t, threeQueues)
	controllerutil.AddFinalizer(protected, v1alpha1.TopologyFinalizer)
	written := controllertest.NewConsumerQueue(t, threeQueues)
	written.Status.ObservedGeneration, written.Status.QueueName = 1, "orders" // while the connection was opened
	for name, test := range map[string]struct {
		cq   *v1alpha1.ConsumerQueue
		want []string
	}{
		"the intents are too large for an annotation": {controllertest.NewConsumerQueue(t, "{bindings: ["+strings.Join(bindings, ", ")+"]}"), []string{"metadata", "status", "status"}},
		"the finalizer exists":                        {protected, []string{"status", "status"}},
		"the status was written before":               {written, []string{"metadata", "status", "status"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.cq)
			manager := w.startWriting("")
			_, err := w.reconcile()
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "writes", test.want, manager.written)
			topologytest.Equal(t, "annotation", "", w.get().Annotations[v1alpha1.IntentsAnnotation])
		})
	}
}

// The API server limits all annotations of a resource together. The cache does not have the annotations of users, so Warren cannot know
// whether the intents fit.
func TestTheStatusRecordsIntentsThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
	w.api = interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			data, err := patch.Data(object)
			if err == nil && strings.Contains(string(data), v1alpha1.IntentsAnnotation) {
				tooLong := field.TooLong(field.NewPath("metadata", "annotations"), "", 256<<10)
				err = apierrors.NewInvalid(schema.GroupKind{Kind: "ConsumerQueue"}, object.GetName(), field.ErrorList{tooLong})
			}
			if err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	manager := w.startWriting("")
	_, err := w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "writes", []string{"metadata", "metadata", "status", "status"}, manager.written)
	cq := w.get()
	topologytest.Equal(t, "reason", v1alpha1.ReasonInSync, conditions.Ready(cq.Status.Conditions).Reason)
	topologytest.Equal(t, "finalizer", true, controllerutil.ContainsFinalizer(cq, v1alpha1.TopologyFinalizer))
}

// killedManager returns a world whose manager was killed after it wrote its intents and declared all except the undeclared
// objects.
func killedManager(t *testing.T, undeclared ...vhost.ID) *world {
	t.Helper()
	w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
	w.startWriting("metadata")
	for _, id := range undeclared {
		w.broker.Fail(id, brokererr.ErrUnreachable)
	}
	if _, err := w.reconcile(); !errors.Is(err, errKilled) {
		t.Fatalf("the manager was not killed: %v", err)
	}
	for _, id := range undeclared {
		w.broker.Fail(id, nil)
	}
	topologytest.Equal(t, "the status has a topology", 0, len(w.get().Status.Topology))
	w.restart()
	return w
}

// The next manager finishes what a killed manager began, however much was declared.
func TestTheNextManagerFinishesTheIntentsOfAKilledManager(t *testing.T) {
	t.Parallel()
	for name, undeclared := range map[string][]vhost.ID{
		"killed before declaring": {{}}, "killed while declaring": {vhost.QueueID("dlq")}, "killed after declaring": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := killedManager(t, undeclared...)
			topologytest.Equal(t, "has declared", len(undeclared) == 0 || undeclared[0] != vhost.ID{}, w.hasQueue("orders"))
			_, err := w.reconcile()
			topologytest.Equal(t, "error", nil, err)
			cq := w.get()
			topologytest.Equal(t, "reason", v1alpha1.ReasonInSync, conditions.Ready(cq.Status.Conditions).Reason)
			topologytest.Equal(t, "owned", 5, len(topology.Owned(cq.Status.Topology)))
		})
	}
}

// The spec changes before the next manager starts. An object of the intents that left the spec is an orphan of Warren.
func TestTheNextManagerKnowsIntentsThatLeftTheSpec(t *testing.T) {
	t.Parallel()
	w := killedManager(t)
	w.edit(controllertest.ConsumerQueue(t, twoQueues).Spec)
	_, err := w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	cq := w.get()
	at := slices.IndexFunc(cq.Status.Topology, func(e v1alpha1.TopologyEntry) bool { return e.Name == "orders.retry.30s" })
	if at < 0 || cq.Status.Topology[at].State != v1alpha1.StateOrphaned {
		t.Errorf("the tier is no orphan: %+v", cq.Status.Topology)
	}
}

// A deletion also uses the intents of a killed manager.
func TestADeletionUsesTheIntentsOfAKilledManager(t *testing.T) {
	t.Parallel()
	w := killedManager(t)
	if err := w.api.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	w.reconciler.index.Update(w.cached())
	if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	ready := conditions.Ready(w.get().Status.Conditions)
	topologytest.Equal(t, "message", "checking whether the queues are empty", ready.Message)
}

// If the connection leads to another cluster by then, Warren owns nothing there. An Event names the objects that remain at the
// old cluster.
func TestIntentsDoNotApplyToAnotherCluster(t *testing.T) {
	t.Parallel()
	w := killedManager(t)
	w.broker.SetHealth(func(h *rabbit.Health) {
		h.ClusterName, h.Cluster = "rabbit@other", vhost.Cluster{Name: "rabbit@other", Endpoint: "other:5672"}
	})
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
	occurred, err := w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "reason of the Event", eventRetained, occurred[0].reason)
	for _, entry := range w.get().Status.Topology {
		if declared := entry.Origin == v1alpha1.OriginDeclared; declared != (entry.Name == "dlq") {
			t.Errorf("%s %q: %s", entry.Kind, entry.Name, entry.Origin)
		}
	}
}

// A ConsumerQueue with written intents holds their objects, even if an older ConsumerQueue is created before anything was
// declared.
func TestIntentsHoldAgainstAnOlderNewcomer(t *testing.T) {
	t.Parallel()
	w := killedManager(t, vhost.ID{})
	holder := w.get()
	older := controllertest.Named(t, "shop", "an-older-one", `{queue: {name: orders}}`)
	older.UID = "older"
	for name, cached := range map[string]*v1alpha1.ConsumerQueue{"the cache has the intents": w.cached(), "the cache lacks the intents": withoutIntents(holder)} {
		index := ownership.NewIndex()
		index.Update(cached)
		index.Update(older)
		here := ownership.Location{Cluster: w.broker.Health().Cluster, VHost: w.broker.VHost()}
		view := index.View(older, here, vhost.RabbitMQ43, func(*v1alpha1.ConsumerQueue) ownership.Location { return here })
		conflict, err := view.FindConflict(t.Context(), ownership.CandidateOf(older, vhost.RabbitMQ43), w.api)
		topologytest.Equal(t, name+": error", nil, err)
		if conflict == nil || !strings.HasPrefix(conflict.Message, "ConsumerQueue shop/orders ") {
			t.Errorf("%s: conflict is %+v", name, conflict)
		}
	}
}

// withoutIntents returns a ConsumerQueue as it was before the intents were written.
func withoutIntents(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	before := cq.DeepCopy()
	before.Annotations, before.Finalizers = nil, nil
	return before
}

// Another ConsumerQueue can appear while a ConsumerQueue waits for the lock, and Warren may open its connection only then. The waiting
// ConsumerQueue finds the conflict before it claims an object.
func TestAClaimFindsAConflictThatIsNew(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]string{
		"shop": "ConsumerQueue shop/a-first-one ", "bank": `a ConsumerQueue in another namespace uses queue "orders" exclusively`,
	} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
			manager := w.startWriting("")
			v := w.vhostScope()
			comparison := v.compare(t.Context())
			decided := plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy)

			first := controllertest.Named(t, namespace, "a-first-one", `{queue: {name: orders}}`)
			first.UID = "first"
			if err := w.api.Create(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			w.reconciler.index.Update(first)
			if _, err := w.reconciler.pool.Ensure(brokers.ConnectionKey(first), time.Time{}, rabbit.Config{Owner: w.broker.Owner()}); err != nil {
				t.Fatal(err)
			}
			conflict, err := v.claim(t.Context(), comparison, decided)
			topologytest.Equal(t, "error", nil, err)
			if conflict == nil || !strings.HasPrefix(conflict.Message, want) {
				t.Errorf("conflict is %+v", conflict)
			}
			topologytest.Equal(t, "writes", 0, len(manager.written))
			topologytest.Equal(t, "finalizers", 0, len(w.get().Finalizers))
		})
	}
}

// The cache may still have the BrokerConnection with which the reconciliation began. Nothing is claimed through a BrokerConnection that may
// disappear first.
func TestAClaimNeedsAProtectedBrokerConnection(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, bc *v1alpha1.BrokerConnection) error{
		"its finalizer is missing": func(w *world, bc *v1alpha1.BrokerConnection) error {
			bc.Finalizers = nil
			return w.api.Update(w.t.Context(), bc)
		},
		"it is being deleted": func(w *world, bc *v1alpha1.BrokerConnection) error { return w.api.Delete(w.t.Context(), bc) },
		"it is gone": func(w *world, bc *v1alpha1.BrokerConnection) error {
			bc.Finalizers = nil
			return errors.Join(w.api.Update(w.t.Context(), bc), w.api.Delete(w.t.Context(), bc))
		},
		"another one has its name": func(w *world, bc *v1alpha1.BrokerConnection) error {
			bc.UID = "another"
			return w.api.Update(w.t.Context(), bc)
		},
	} {
		for whose, prepare := range map[string]func(w *world){
			"a new ConsumerQueue": func(*world) {},
			"a ConsumerQueue that lost its finalizer": func(w *world) {
				w.mustReconcile()
				cq := w.get()
				cq.Finalizers = nil
				if err := w.api.Update(w.t.Context(), cq); err != nil {
					w.t.Fatal(err)
				}
			},
		} {
			t.Run(name+", for "+whose, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
				prepare(w)
				manager := w.startWriting("")
				v := w.vhostScope()
				comparison := v.compare(t.Context())
				if err := change(w, w.connection()); err != nil {
					t.Fatal(err)
				}
				_, err := v.claim(t.Context(), comparison, plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy))
				topologytest.Equal(t, "the cache is stale", true, errors.Is(err, statuswriter.ErrStaleCache))
				topologytest.Equal(t, "writes", 0, len(manager.written))
			})
		}
	}
}

// vhostScope returns the scope of a reconciliation that has not compared anything yet.
func (w *world) vhostScope() *vhostScope {
	w.t.Helper()
	s := &scope{Reconciler: w.reconciler, report: reportOn(w.get())}
	w.reconciler.index.Update(w.cached())
	connection, version, _ := w.reconciler.pool.Usable(w.connection())
	desired, err := topology.Desired(s.cq, version)
	topologytest.Equal(w.t, "error", nil, err)
	v, err := s.resolveVHost(w.t.Context(), connection, version, desired)
	topologytest.Equal(w.t, "error", nil, err)
	return v
}

// A manager that lost the lead does not overwrite the status of the next manager.
func TestAFormerLeaderOverwritesNoStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, threeQueues))
	w.startWriting("")
	v := w.vhostScope()
	comparison := v.compare(t.Context())
	decided := plan.Decide(comparison, v.known, v.cq.Spec.DriftPolicy)
	_, err := v.claim(t.Context(), comparison, decided)
	topologytest.Equal(t, "error", nil, err)

	w.restart() // the next manager
	_, err = w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	found := w.get().Status

	_, _ = v.apply(t.Context(), comparison, decided)
	v.status.Topology = nil
	topologytest.Equal(t, "conflict", true, apierrors.IsConflict(v.finish(t.Context())))
	topologytest.Equal(t, "status", found, w.get().Status)
}

func (w *world) hasQueue(name string) bool {
	observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{name}})
	_, exists := observed.Queues[name]
	return exists
}

func (w *world) connection() *v1alpha1.BrokerConnection {
	w.t.Helper()
	bc := &v1alpha1.BrokerConnection{}
	if err := w.api.Get(w.t.Context(), brokers.ConnectionKey(w.get()), bc); err != nil {
		w.t.Fatal(err)
	}
	return bc
}
