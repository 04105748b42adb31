package consumerqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

// withContract is a ConsumerQueue with a contract, whose source exchange another client declares.
const withContract = `{contract: {configMap: orders-contract}, bindings: [{exchange: {name: shop}}], retry: {policy: None}}`

// shop declares the source exchange, as another client would.
func shop(w *world) {
	w.broker.Change(func(s *snapshot.Snapshot) { s.PutExchange("shop", vhost.Exchange{Type: "topic", Durable: true}) })
}

func (w *world) configMap() *corev1.ConfigMap {
	w.t.Helper()
	found := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: controllertest.Orders.Namespace, Name: "orders-contract"}
	if err := w.api.Get(w.t.Context(), key, found); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return found
}

// Consumers must not follow the contract of the new queue at the old one. Until they have the contract, Ready is not True.
func TestAContractWaitsForARecreation(t *testing.T) {
	t.Parallel()
	const contracted = `{recreatePolicy: WhenEmpty, contract: {configMap: orders-contract}, ` + bound + `}`
	w := newRecreationWorld(t, whenEmpty, func(w *recreationWorld) { w.engine.seen.Consumers = 1 })
	w.wantTTL(contracted)
	w.settle()
	topologytest.Equal(t, "Ready", "Unknown RecreationPending", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "the message names the ConfigMap", true, strings.HasSuffix(
		w.messageOf(v1alpha1.ConditionReady), `; the contract in ConfigMap "orders-contract" waits for the recreation`))
	topologytest.Equal(t, "the ConfigMap exists", false, w.configMap().Name != "")

	w.engine.set(func(m *memoryRecreator) { m.seen.Consumers = 0 })
	w.age(inspectionAge)
	w.settle()
	topologytest.Equal(t, "Ready after the recreation", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "the ConfigMap exists after the recreation", true, w.configMap().Name != "")
}

// New pods of the old queue cannot start without the ConfigMap.
func TestADeletedContractIsRestoredWhileItsQueueWaitsToBeRecreated(t *testing.T) {
	t.Parallel()
	const contracted = `{recreatePolicy: WhenEmpty, contract: {configMap: orders-contract}, ` + bound + `}`
	w := newRecreationWorld(t, contracted, func(w *recreationWorld) { w.engine.seen.Consumers = 1 })
	w.wantTTL(contracted)
	w.settle()
	topologytest.Equal(t, "Ready", "True RecreationPending", w.conditionOf(v1alpha1.ConditionReady))
	written := w.configMap()
	if err := w.api.Delete(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	w.settle()
	topologytest.Equal(t, "the ConfigMap exists, a moment later", false, w.configMap().Name != "")
	w.clock.SetTime(w.clock.Now().Add(restoreInterval))
	w.settle()
	topologytest.Equal(t, "contract", written.Data, w.configMap().Data)
	topologytest.Equal(t, "Ready", "True RecreationPending", w.conditionOf(v1alpha1.ConditionReady))

	foreign := w.configMap()
	foreign.Labels = nil
	if err := w.api.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.clock.SetTime(w.clock.Now().Add(restoreInterval))
	for range 2 {
		w.settle()
		topologytest.Equal(t, "Ready without the label", "False ContractNotWritten", w.conditionOf(v1alpha1.ConditionReady))
	}
}

// A contract is written only if all queues exist.
func TestTheContractIsWrittenWhenTheTopologyIsInSync(t *testing.T) {
	t.Parallel()
	cq := controllertest.NewConsumerQueue(t, withContract)
	w := newWorld(t, cq)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if found := w.configMap(); found.Name != "" || w.get().Status.Contract != nil {
		t.Errorf("a contract exists while the exchange is missing: %+v", found)
	}
	shop(w)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	found := w.configMap()
	want := map[string]string{
		"type": "rabbitmq", "provider": "warren", "host": "memory", "port": "5672", "virtual-host": "/",
		"contract.json": `{
  "apiVersion": "contract.warren.dev/v1",
  "queue": "orders",
  "virtualHost": "/",
  "strategy": "None",
  "maxAttempts": 1,
  "park": {
    "exchange": "orders.dlx",
    "routingKey": ""
  },
  "deadLetterQueue": "orders.dlq",
  "rejectDeadLetters": true,
  "singleActiveConsumer": false,
  "configMap": "shop/orders-contract"
}
`,
	}
	if difference := cmp.Diff(want, found.Data); difference != "" {
		t.Errorf("data (-want +got):\n%s", difference)
	}
	if !metav1.IsControlledBy(found, cq) || *found.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("owners are %+v", found.OwnerReferences)
	}
	if difference := cmp.Diff(map[string]string{"messaging.warren.dev/contract": "true"}, found.Labels); difference != "" {
		t.Errorf("labels (-want +got):\n%s", difference)
	}
	first := w.get().Status.Contract
	if first == nil || first.ConfigMap != "orders-contract" || !strings.HasPrefix(first.Hash, "sha256:") || first.LastUpdateTime.IsZero() {
		t.Fatalf("status.contract is %+v", first)
	}

	spec := w.get().Spec
	spec.DeadLetter = &v1alpha1.DeadLetterSpec{RoutingKey: new(v1alpha1.RoutingKey("given-up"))}
	w.edit(spec)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if document := w.configMap().Data["contract.json"]; !strings.Contains(document, `"routingKey": "given-up"`) {
		t.Errorf("after an edit the contract is %s", document)
	}
	if second := w.get().Status.Contract; second.Hash == first.Hash {
		t.Error("after an edit the hash is the same")
	}

	version := w.configMap().ResourceVersion
	w.restart()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if now := w.configMap().ResourceVersion; now != version {
		t.Error("the contract was written again without a change")
	}
}

func TestTheContractCannotBeWritten(t *testing.T) {
	t.Parallel()
	configMap := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		found := &corev1.ConfigMap{Data: map[string]string{"theirs": "kept"}}
		found.Namespace, found.Name = controllertest.Orders.Namespace, "orders-contract"
		change(found)
		return found
	}
	ours := func(c *corev1.ConfigMap) { c.Labels = map[string]string{v1alpha1.ContractLabel: "true"} }
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "orders-contract", errors.New("no right"))
	down := errors.New("the API server is down")
	for name, test := range map[string]struct {
		found    *corev1.ConfigMap
		fails    error
		stalled  bool
		want     string
		retried  error
		requeued bool
	}{
		"the ConfigMap has no label of Warren": {
			found: configMap(func(*corev1.ConfigMap) {}), stalled: true,
			want: `ConfigMap "orders-contract": not written, because it lacks the label messaging.warren.dev/contract. Delete it, or name another in spec.contract`,
		},
		"the ConfigMap cannot be changed": {
			found:   configMap(func(c *corev1.ConfigMap) { ours(c); c.Immutable = new(true) }),
			stalled: true,
			want:    `ConfigMap "orders-contract": not written, because it is immutable. Delete it, or name another in spec.contract`,
		},
		"the ConfigMap belongs to another ConsumerQueue": {
			found: configMap(func(c *corev1.ConfigMap) {
				ours(c)
				c.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: v1alpha1.GroupVersion.String(), Kind: "ConsumerQueue", Name: "invoices", UID: "i", Controller: new(true),
				}}
			}), stalled: true,
			want: `ConfigMap "orders-contract": not written, because it belongs to ConsumerQueue "invoices". Name another in spec.contract`,
		},
		"no permission": {
			fails: forbidden, stalled: true,
			want: `ConfigMap "orders-contract": configmaps "orders-contract" is forbidden: no right. To grant the permission, install config/contract or set consumerContracts.enabled in the chart`,
		},
		"the API server does not answer": {
			fails: down, retried: down, want: `ConfigMap "orders-contract": the API server is down`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{controllertest.NewConsumerQueue(t, withContract)}
			if test.found != nil {
				objects = append(objects, test.found)
			}
			w := newWorld(t, objects...)
			shop(w)
			w.reconciler.live = interceptor.NewClient(w.api, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
					if _, asked := into.(*corev1.ConfigMap); asked && test.fails != nil {
						return test.fails
					}
					return c.Get(ctx, key, into, options...)
				},
			})
			if _, err := w.reconcile(); !errors.Is(err, test.retried) {
				t.Errorf("error: %v", err)
			}
			ready := meta.FindStatusCondition(w.get().Status.Conditions, v1alpha1.ConditionReady)
			topologytest.Equal(t, "Ready", []string{"False", "ContractNotWritten", test.want}, []string{string(ready.Status), ready.Reason, ready.Message})
			topologytest.Equal(t, "Stalled", test.stalled, meta.IsStatusConditionTrue(w.get().Status.Conditions, v1alpha1.ConditionStalled))
			topologytest.Equal(t, "Drifted", true, meta.IsStatusConditionFalse(w.get().Status.Conditions, v1alpha1.ConditionDrifted))
			if test.found != nil {
				topologytest.Equal(t, "their data", test.found.Data, w.configMap().Data)
			}
		})
	}
}

// A former ConsumerQueue of this name left the ConfigMap, or a backup restored it without its owner.
func TestTheContractOfAFormerConsumerQueueIsAdopted(t *testing.T) {
	t.Parallel()
	cq := controllertest.NewConsumerQueue(t, withContract)
	earlier := &corev1.ConfigMap{}
	earlier.Namespace, earlier.Name, earlier.Labels = cq.Namespace, "orders-contract", map[string]string{v1alpha1.ContractLabel: "true"}
	earlier.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "ConsumerQueue", Name: cq.Name, UID: "earlier", Controller: new(true),
	}}
	w := newWorld(t, cq, earlier)
	shop(w)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if found := w.configMap(); !metav1.IsControlledBy(found, cq) || found.Data["contract.json"] == "" {
		t.Errorf("the ConfigMap is %+v", found)
	}
}

func TestContractPending(t *testing.T) {
	t.Parallel()
	const held = `consumers may still publish to it. Warren removes it 3m after ConfigMap "orders-contract" stops naming it`
	// LastUpdateTime comes from the clock of another manager.
	contractIn := func(configMap, hash string) *v1alpha1.ContractStatus {
		return &v1alpha1.ContractStatus{ConfigMap: configMap, Hash: hash, LastUpdateTime: ago(time.Hour)}
	}
	for name, test := range map[string]struct {
		recorded *v1alpha1.ContractStatus // an empty hash stands for the hash of the contract
		seen     time.Duration            // how long ago this manager saw it first
		written  map[string]string        // data of the ConfigMap instead of the contract
		removed  bool                     // spec.contract was removed
		want     string
	}{
		"the contract is not written yet":                 {want: held},
		"another contract is written":                     {recorded: contractIn("orders-contract", "sha256:1"), seen: time.Hour, want: held},
		"the contract is in another ConfigMap":            {recorded: contractIn("before", ""), seen: time.Hour, want: held},
		"this manager sees it for the first time":         {recorded: contractIn("orders-contract", ""), want: held},
		"this manager saw it two minutes ago":             {recorded: contractIn("orders-contract", ""), seen: 2 * time.Minute, want: held},
		"this manager saw it three minutes ago":           {recorded: contractIn("orders-contract", ""), seen: 3 * time.Minute},
		"the ConfigMap was changed since":                 {recorded: contractIn("orders-contract", ""), seen: time.Hour, written: map[string]string{"contract.json": "{}"}, want: held},
		"spec.contract was removed, seen two minutes ago": {recorded: contractIn("orders-contract", ""), seen: 2 * time.Minute, removed: true, want: held},
		"spec.contract was removed, seen an hour ago":     {recorded: contractIn("orders-contract", ""), seen: time.Hour, removed: true},
		"spec.contract was never set":                     {removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := controllertest.NewConsumerQueue(t, withContract)
			cq.Status.Contract = test.recorded
			if test.removed {
				cq.Spec.Contract = nil
			}
			now := testclock.NewFakePassiveClock(time.Now())
			v := &vhostScope{scope: &scope{Reconciler: &Reconciler{contracts: retrybudget.NewFirstSeen(now)}, report: reportOn(cq)}, version: vhost.RabbitMQ43}
			v.location.VHost, v.location.Cluster.Endpoint = "/", "memory:5672"
			c, err := v.contract("orders-contract")
			if err != nil {
				t.Fatal(err)
			}
			if test.recorded != nil && test.recorded.Hash == "" {
				v.status.Contract.Hash = c.hash
			}
			found := &corev1.ConfigMap{Data: c.data}
			found.Namespace, found.Name = cq.Namespace, "orders-contract"
			if test.written != nil {
				found.Data = test.written
			}
			v.live = controllertest.Client(t, nil, found)
			v.contractLeft()
			now.SetTime(now.Now().Add(test.seen))
			topologytest.Equal(t, "hold", test.want, v.contractPending(t.Context()))
		})
	}
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }

// Together with spec.contract, a user may remove the permission or the label of the ConfigMap.
func TestAnUnmanagedConfigMapIsForgotten(t *testing.T) {
	t.Parallel()
	cq := controllertest.NewConsumerQueue(t, `{}`)
	cq.Status.Contract = &v1alpha1.ContractStatus{ConfigMap: "orders-contract", Hash: "sha256:1"}
	theirs := &corev1.ConfigMap{Data: map[string]string{"theirs": "kept"}}
	theirs.Namespace, theirs.Name = cq.Namespace, "orders-contract"
	w := newWorld(t, cq, theirs)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "status.contract", (*v1alpha1.ContractStatus)(nil), w.get().Status.Contract)
	topologytest.Equal(t, "Ready", true, meta.IsStatusConditionTrue(w.get().Status.Conditions, v1alpha1.ConditionReady))
	topologytest.Equal(t, "their data", theirs.Data, w.configMap().Data)
}

// Pods that still mount the ConfigMap learn that a delay tier left the spec together with spec.contract.
func TestARemovedContractIsForgottenWhenConsumersHaveReadIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{contract: {configMap: orders-contract}, retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	spec := w.get().Spec
	spec.Contract, spec.Retry.DelayTiers = nil, spec.Retry.DelayTiers[1:]
	w.edit(spec)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if document := w.configMap().Data["contract.json"]; strings.Contains(document, "orders.retry.10s") {
		t.Errorf("the contract still has the tier: %s", document)
	}
	cq := w.get()
	if cq.Status.Contract == nil || len(cq.Status.Advisories) != 1 {
		t.Fatalf("status.contract is %+v, advisories are %+v", cq.Status.Contract, cq.Status.Advisories)
	}
	w.clock.SetTime(w.clock.Now().Add(3 * time.Minute))
	w.mustReconcile()
	topologytest.Equal(t, "status.contract", (*v1alpha1.ContractStatus)(nil), w.get().Status.Contract)
}

// Consumers publish to a delay tier that left the spec until they read the new contract.
func TestTheContractIsWrittenBeforeATierIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{contract: {configMap: orders-contract}, retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	spec := w.get().Spec
	spec.Retry.DelayTiers = spec.Retry.DelayTiers[1:]
	w.edit(spec)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if document := w.configMap().Data["contract.json"]; strings.Contains(document, "orders.retry.10s") {
		t.Errorf("the contract still has the tier: %s", document)
	}
	advisories := w.get().Status.Advisories
	if len(advisories) != 1 || advisories[0].Reason != v1alpha1.AdvisoryReasonContractPending {
		t.Errorf("advisories are %+v", advisories)
	}
	if observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"orders.retry.10s"}}); !observed.Has(vhost.QueueID("orders.retry.10s")) {
		t.Error("the tier is gone")
	}

	w.restart() // the next manager does not trust the times of the former one
	w.mustReconcile()
	topologytest.Equal(t, "reason after a restart", v1alpha1.AdvisoryReasonContractPending, w.get().Status.Advisories[0].Reason)

	w.clock.SetTime(w.clock.Now().Add(3 * time.Minute))
	NewWithT(t).Eventually(func() bool {
		w.mustReconcile()
		return w.hasQueue("orders.retry.10s")
	}).WithTimeout(deadline.For(10 * time.Second)).Should(BeFalse())
}

// Another client writes the ConfigMap at the same time.
func TestTheContractIsWrittenAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ conflicts, left int }{"one conflict": {1, 0}, "a conflict at each try": {100, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, `{contract: {configMap: orders-contract}}`))
			w.mustReconcile()
			edited := w.configMap()
			want := edited.Data["contract.json"]
			edited.Data["contract.json"] = "{}"
			topologytest.Equal(t, "error of the edit", nil, w.api.Update(t.Context(), edited))
			conflicts := test.conflicts
			w.reconciler.client = interceptor.NewClient(w.api, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if conflicts--; conflicts >= 0 {
						return controllertest.Conflict("orders-contract")
					}
					return c.Patch(ctx, object, patch, options...)
				},
			})
			_, err := w.reconcile()
			topologytest.Equal(t, "is a conflict", test.left > 0, apierrors.IsConflict(err))
			topologytest.Equal(t, "is Ready", true, meta.IsStatusConditionTrue(w.get().Status.Conditions, v1alpha1.ConditionReady))
			topologytest.Equal(t, "is written", test.left == 0, w.configMap().Data["contract.json"] == want)
		})
	}
}
