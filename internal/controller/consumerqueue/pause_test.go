package consumerqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// automatic is a topology whose consumers may be asked to pause.
const automatic = `{recreatePolicy: Migrate, recreation: {approval: Automatic}, contract: {configMap: orders-contract}, ` + bound + `}`

// newPausableWorld has a ConsumerQueue with a contract and two consumers that follow the contract. The spec then wants another TTL.
func newPausableWorld(t *testing.T, prepare ...func(*recreationWorld)) *recreationWorld {
	t.Helper()
	w := newRecreationWorld(t, automatic, append(prepare, func(w *recreationWorld) {
		w.engine.seen.Consumers, w.engine.listed, w.engine.following = 2, 2, 2
	})...)
	w.wantTTL(automatic)
	return w
}

// paused returns the id of the pause that the ConfigMap asks for; empty if it asks for none.
func (w *recreationWorld) paused() string {
	w.t.Helper()
	found, err := consumercontract.Parse([]byte(w.configMap().Data[documentKey]))
	if err != nil {
		w.t.Fatal(err)
	}
	if found.Paused == nil {
		return ""
	}
	return found.Paused.ID
}

// pause reconciles until the ConfigMap asks for a pause, and returns the id.
func (w *recreationWorld) pause() string {
	w.t.Helper()
	w.settle() // records the pause
	topologytest.Equal(w.t, "paused before the status was written", "", w.paused())
	w.once()
	topologytest.Equal(w.t, "paused", plan.PauseID(w.get().Status.Recreation), w.paused())
	return w.paused()
}

// stopConsumers removes the consumers and restarts the manager. The new manager counts immediately, because it has no earlier count.
func (w *recreationWorld) stopConsumers() {
	w.t.Helper()
	w.engine.set(func(m *memoryRecreator) { m.seen.Consumers, m.listed, m.following = 0, 0, 0 })
	w.restart()
}

func TestConsumersPauseUntilTheQueueIsNew(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	id := w.pause()
	status := w.get().Status.Recreation
	topologytest.Equal(t, "pauses", int32(1), status.Pauses)
	left := time.Until(status.Pause.Until.Time).Round(time.Minute)
	topologytest.Equal(t, "the pause lasts", 10*time.Minute, left)
	topologytest.Equal(t, "RecreationRequired", "True WaitingForConsumers", w.conditionOf(v1alpha1.ConditionRecreationRequired))

	paused := map[v1alpha1.RecreationPhase]string{}
	release := make(chan struct{})
	for _, phase := range []v1alpha1.RecreationPhase{
		v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying, v1alpha1.RecreationSwapping,
	} {
		w.engine.during[phase] = func(context.Context) error { paused[phase] = w.paused(); return nil }
	}
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error { <-release; return nil }
	w.stopConsumers()
	w.reach(v1alpha1.RecreationGivingBack)
	topologytest.Equal(t, "paused before GivingBack", map[v1alpha1.RecreationPhase]string{
		v1alpha1.RecreationDiverting: id, v1alpha1.RecreationEmptying: id, v1alpha1.RecreationSwapping: id,
	}, paused)
	topologytest.Equal(t, "paused when GivingBack has begun", "", w.paused())
	close(release)
	w.settle()
	topologytest.Equal(t, "TTL", any(int64(300_000)), w.ttl())
	topologytest.Equal(t, "Ready", "True InSync", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "pause afterwards", (*v1alpha1.ConsumerPause)(nil), w.get().Status.Recreation.Pause)
	topologytest.Equal(t, "Events", []string{
		eventRecreationPlanned, eventConsumersPaused, eventRecreationStarted, eventQueueSwapped, eventRecreationFinished,
	}, reasonsOf(w.recorder.occurred))
}

func TestConsumersThatAreNotAskedToPause(t *testing.T) {
	t.Parallel()
	const waits = `Warren recreates queue "orders" after its 2 consumers have stopped`
	for name, test := range map[string]struct {
		spec    string
		prepare func(*recreationWorld)
		want    string // the end of the message
	}{
		"the policy is WhenEmpty": {spec: strings.Replace(automatic, "Migrate", "WhenEmpty", 1), want: waits},
		"there is no ConfigMap":   {spec: strings.Replace(automatic, "contract: {configMap: orders-contract}, ", "", 1), want: waits},
		"the approval is missing": {spec: strings.Replace(automatic, "Automatic", "Required", 1), want: "sha256:"},
		"one does not follow the contract": {
			prepare: func(w *recreationWorld) { w.engine.following = 1 },
			want:    `; 1 of them does not follow the contract in ConfigMap "shop/orders-contract": scale these consumers to zero`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.spec == "" {
				test.spec = automatic
			}
			w := newPausableWorld(t)
			if test.prepare != nil {
				test.prepare(w)
			}
			w.wantTTL(test.spec)
			w.settle()
			w.once()
			topologytest.Equal(t, "paused", "", w.paused())
			for _, condition := range w.get().Status.Conditions {
				if condition.Type == v1alpha1.ConditionRecreationRequired && !strings.Contains(condition.Message, test.want) {
					t.Errorf("the message is %q, want %q", condition.Message, test.want)
				}
			}
		})
	}
}

// Whatever ends the wait, consumers must not stay away.
func TestAPauseEndsBeforeTheRecreationHasBegun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *recreationWorld){
		"by an abort":       func(w *recreationWorld) { w.annotate(v1alpha1.AbortRecreationAnnotation, w.get().Status.Recreation.ID) },
		"by recreatePolicy": func(w *recreationWorld) { w.wantTTL(strings.Replace(automatic, "Migrate", "WhenEmpty", 1)) },
		"by recreatePolicy Manual": func(w *recreationWorld) {
			w.wantTTL(`{contract: {configMap: orders-contract}, ` + bound + `}`)
		},
		"by recreation.approval": func(w *recreationWorld) { w.wantTTL(strings.Replace(automatic, "Automatic", "Required", 1)) },
		"by a spec as before":    func(w *recreationWorld) { w.edit(topologytest.ConsumerQueue(w.t, automatic).Spec) },
		"by spec.suspend": func(w *recreationWorld) {
			cq := w.get()
			cq.Spec.Suspend = true
			w.edit(cq.Spec)
		},
		"by a deletion": func(w *recreationWorld) {
			cq := w.get()
			cq.Finalizers = append(cq.Finalizers, "example.com/keeps-it")
			if err := errors.Join(w.api.Update(w.t.Context(), cq), w.api.Delete(w.t.Context(), cq)); err != nil {
				w.t.Fatal(err)
			}
		},
		"because a consumer stays for five minutes": func(w *recreationWorld) { w.rewindPause(5 * time.Minute) },
		"because too many messages are ready once the consumers are gone": func(w *recreationWorld) {
			w.engine.set(func(m *memoryRecreator) { m.seen.Ready = 200_000 })
			w.stopConsumers()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPausableWorld(t)
			w.pause()
			end(w)
			w.settle()
			topologytest.Equal(t, "paused", "", w.paused())
			w.once() // a deletion waits for the broker before it writes its status
			if recreation := w.get().Status.Recreation; recreation != nil && recreation.Pause != nil {
				t.Errorf("the status still has the pause %+v", recreation.Pause)
			}
			topologytest.Equal(t, "phases", []string(nil), w.engine.taken())
			topologytest.Equal(t, "slots", 0, len(w.reconciler.recreations.slots))
		})
	}
}

// A broker that refuses another change of the spec for a moment must not renew the budget of attempts and pauses.
func TestAFailureOfAnotherChangeKeepsTheCountsOfARecreation(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	w.pause()
	cq := w.get()
	cq.Status.Recreation.Attempts, cq.Status.Recreation.AttemptsGeneration = 2, cq.Generation+1 // of the edit below
	if err := w.api.Status().Update(t.Context(), cq); err != nil {
		t.Fatal(err)
	}
	w.broker.FailAll(brokererr.ErrAccessRefused)
	w.wantTTL(strings.Replace(automatic, "[placed]}", "[placed]}, {exchange: {name: refunds, type: topic}, routingKeys: [paid]}", 1))
	for range 3 { // a refused write waits for a refresh
		w.settle()
	}
	topologytest.Equal(t, "Ready", "False PermissionDenied", w.conditionOf(v1alpha1.ConditionReady))
	topologytest.Equal(t, "paused", "", w.paused())
	counts := func() [2]int32 {
		recreation := w.get().Status.Recreation
		if recreation == nil {
			t.Fatal("the recreation is forgotten")
		}
		return [2]int32{recreation.Attempts, recreation.Pauses}
	}
	topologytest.Equal(t, "attempts and pauses", [2]int32{2, 1}, counts())
	w.broker.FailAll(nil)
	w.settle()
	topologytest.Equal(t, "attempts and pauses once the broker allows the change", [2]int32{2, 2}, counts())
}

// rewindPause makes the pause begin earlier.
func (w *recreationWorld) rewindPause(by time.Duration) {
	w.t.Helper()
	cq := w.get()
	cq.Status.Recreation.Pause.Until = metav1.NewTime(cq.Status.Recreation.Pause.Until.Add(-by))
	if err := w.api.Status().Update(w.t.Context(), cq); err != nil {
		w.t.Fatal(err)
	}
}

// A pause without a recreation costs throughput, so the next one comes later. It has another ID, because consumers end a pause by ID.
func TestAPauseWithoutARecreation(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	id := w.pause()
	w.rewindPause(5 * time.Minute)
	w.once()
	last := w.get().Status.Recreation.LastResult
	topologytest.Equal(t, "reason", v1alpha1.BackOutPauseEnded, last.Reason)
	topologytest.Equal(t, "message", `its consumers did not all stop: Warren recreates queue "orders" after its 2 consumers have stopped`, last.Message)
	age := func(ago time.Duration) {
		cq := w.get()
		cq.Status.Recreation.LastResult.Time = metav1.NewTime(time.Now().Add(-ago).Truncate(time.Second))
		if err := w.api.Status().Update(t.Context(), cq); err != nil {
			t.Fatal(err)
		}
	}
	age(time.Minute)
	w.settle()
	w.once()
	topologytest.Equal(t, "paused a minute later", "", w.paused())
	age(11 * time.Minute)
	w.restart()
	planned := w.get().Status.Recreation.ID
	next := w.pause()
	topologytest.Equal(t, "the next pause has another id", true, next != id)
	topologytest.Equal(t, "the recreation that a user could have aborted before", planned, w.get().Status.Recreation.ID)
}

func TestAPauseOfAllConsumersWithoutARecreation(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	w.pause()
	w.engine.set(func(m *memoryRecreator) { m.seen.Ready = 200_000 })
	w.stopConsumers()
	w.settle()
	topologytest.Equal(t, "message", `its consumers paused, but the recreation could not begin: Warren recreates queue "orders" when at most 100000 `+
		`messages are ready (recreation.maxReadyMessages)`, w.get().Status.Recreation.LastResult.Message)
}

// The condition must not say that consumers pause if the API server refuses to write the ConfigMap.
func TestAPauseThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "orders-contract", errors.New("no right"))
	w.reconciler.client = interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return forbidden
		},
	})
	w.settle()
	const want = `; Warren cannot write the pause into ConfigMap "orders-contract" of spec.contract: configmaps "orders-contract" is forbidden: no right`
	for range 2 {
		w.once()
		got := w.messageOf(v1alpha1.ConditionRecreationRequired)
		if !strings.HasSuffix(got, want) || strings.Count(got, want) > 1 {
			t.Errorf("the message is %q", got)
		}
	}
}

// The status asks for the pause, but the ConfigMap is no longer Warren's.
func TestAPauseChangesNoConfigMapOfOthers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.ConfigMap){
		"it has another controller": func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "another" },
		"it has no label":           func(c *corev1.ConfigMap) { c.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPausableWorld(t)
			found := w.configMap()
			change(found)
			if err := w.api.Update(t.Context(), found); err != nil {
				t.Fatal(err)
			}
			w.settle() // records the pause
			w.once()
			topologytest.Equal(t, "the status has a pause", true, w.get().Status.Recreation.Pause != nil)
			topologytest.Equal(t, "data", found.Data, w.configMap().Data)
		})
	}
}

// While the broker is unreachable, the condition keeps its message. A later refusal of the API server replaces the former one.
func TestAPauseIsRefusedForAnotherReason(t *testing.T) {
	t.Parallel()
	s := &scope{report: reportOn(&v1alpha1.ConsumerQueue{})}
	conditions.For(&s.status.Conditions, 0).Set(v1alpha1.ConditionRecreationRequired, conditions.True("Changed", "queue differs"))
	for _, reason := range []string{"write: request 1 was denied", "write: request 2 was denied"} {
		s.reportUnwrittenPause(errors.New(reason))
		topologytest.Equal(t, "message", "queue differs; Warren cannot "+reason, s.status.Conditions[0].Message)
	}
}

// A recreation that goes back gives the messages to the old queue, so its consumers must come back as well.
func TestAPauseEndsWhenTheRecreationGoesBack(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	w.pause()
	release := make(chan struct{})
	w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error {
		w.annotate(v1alpha1.AbortRecreationAnnotation, w.get().Status.Recreation.ID)
		return nil
	}
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error { <-release; return nil }
	w.stopConsumers()
	w.reach(v1alpha1.RecreationGivingBack)
	topologytest.Equal(t, "paused", "", w.paused())
	close(release)
	w.settle()
	topologytest.Equal(t, "result", v1alpha1.RecreationBackedOut, w.get().Status.Recreation.LastResult.Result)
}

// The manager may be killed between the status and the ConfigMap, or the API server may refuse the write.
func TestAPauseIsRemovedAfterACrash(t *testing.T) {
	t.Parallel()
	w := newPausableWorld(t)
	w.pause()
	down := errors.New("the API server is down")
	release := make(chan struct{})
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error { <-release; return nil }
	w.stopConsumers()
	w.reconciler.client = interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return down
		},
	})
	for w.get().Status.Recreation.Phase != v1alpha1.RecreationGivingBack {
		w.reconciler.index.Update(w.cached())
		if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders}); err != nil && !errors.Is(err, down) {
			t.Fatal(err)
		}
	}
	topologytest.Equal(t, "paused before the crash", true, w.paused() != "")
	w.restart()
	w.once()
	topologytest.Equal(t, "paused after the crash", "", w.paused())
	close(release)
}
