package consumerqueue

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/topology/plan"
)

const kind = "ConsumerQueue"

func (s *scope) countReconciliation(waits waiting, err error) {
	result, reason := "done", conditions.Ready(s.status.Conditions).Reason
	switch {
	case waits != (waiting{}):
		result, reason = "waiting", waits.reason
	case err != nil:
		result, reason = "failed", "Error"
	}
	metrics.Reconciliations.Inc(kind, result, reason)
}

// startDriftCounters creates a series for each kind of difference, because rate ignores the event that creates a series.
func startDriftCounters() {
	for kind, effects := range map[v1alpha1.ObjectKind][]v1alpha1.Effect{
		v1alpha1.KindExchange: {v1alpha1.EffectDeclare, v1alpha1.EffectDelete, v1alpha1.EffectRecreate, v1alpha1.EffectNone},
		v1alpha1.KindQueue:    {v1alpha1.EffectDeclare, v1alpha1.EffectRecreate, v1alpha1.EffectNone},
		v1alpha1.KindBinding:  {v1alpha1.EffectBind, v1alpha1.EffectUnbind, v1alpha1.EffectNone},
	} {
		for _, effect := range effects {
			metrics.DriftDetected.Start(string(kind), string(effect))
			metrics.DriftCorrected.Start(string(kind), string(effect))
		}
	}
}

// countDetected counts differences when they are first seen.
func (v *vhostScope) countDetected(found []v1alpha1.Change) {
	for _, change := range v.notSeenBefore(found) {
		metrics.DriftDetected.Inc(string(change.Kind), string(change.Effect))
	}
}

// countCorrected counts the differences that are gone.
func (v *vhostScope) countCorrected(found []v1alpha1.Change, after plan.Comparison) {
	for _, change := range plan.Without(found, after.Changes) {
		metrics.DriftCorrected.Inc(string(change.Kind), string(change.Effect))
	}
}

// notSeenBefore returns the changes that the status does not list. A status that lists only part of the changes has a hash of all of them.
func (v *vhostScope) notSeenBefore(found []v1alpha1.Change) []v1alpha1.Change {
	if plan.Hash(found) == v.status.PlanHash {
		return nil
	}
	return plan.Without(found, v.status.Changes)
}

var messageRoles = map[v1alpha1.Role]string{
	v1alpha1.RoleMain: "main", v1alpha1.RoleDelayTier: "delayed", v1alpha1.RoleDeadLetter: "dead_lettered",
}

// EmitMetrics emits the metrics of all ConsumerQueues.
func (r *Reconciler) EmitMetrics(emit metrics.Emit) {
	r.limiter.EmitMetrics(emit)
	brokers.EmitWaiting(emit, r.gates())
	list := &v1alpha1.ConsumerQueueList{}
	if err := r.client.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil { // the cache has stopped
		return
	}
	counts := conditions.NewCounts(kind)
	for i := range list.Items {
		counts.Add(emit, &list.Items[i], list.Items[i].Status.Conditions)
		emitAdvisories(emit, &list.Items[i])
		r.emitMessages(emit, &list.Items[i])
		emitRecreation(emit, &list.Items[i])
	}
	counts.Emit(emit)
	r.emitMissingConnections(emit, list.Items)
}

// emitAdvisories emits how many advisories of each code a ConsumerQueue has. While the ConsumerQueue is suspended, its advisories are
// outdated.
func emitAdvisories(emit metrics.Emit, cq *v1alpha1.ConsumerQueue) {
	if meta.IsStatusConditionTrue(cq.Status.Conditions, v1alpha1.ConditionSuspended) {
		return
	}
	counts := map[v1alpha1.AdvisoryCode]int{}
	for _, advisory := range cq.Status.Advisories {
		counts[advisory.Code]++
	}
	for code, count := range counts {
		metrics.Advisories.Emit(emit, float64(count), cq.Namespace, cq.Name, string(code))
	}
}

func emitRecreation(emit metrics.Emit, cq *v1alpha1.ConsumerQueue) {
	recreation := cq.Status.Recreation
	if recreation == nil || recreation.Phase == "" {
		return
	}
	metrics.RecreationPhase.Emit(emit, 1, cq.Namespace, cq.Name, string(recreation.Phase))
	metrics.RecreationRemaining.Emit(emit, float64(recreation.Remaining), cq.Namespace, cq.Name)
}

// emitMissingConnections emits how many ConsumerQueues name each BrokerConnection that does not exist.
func (r *Reconciler) emitMissingConnections(emit metrics.Emit, queues []v1alpha1.ConsumerQueue) {
	list := &v1alpha1.BrokerConnectionList{}
	if err := r.client.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil { // the cache has stopped
		return
	}
	exists := map[client.ObjectKey]bool{}
	for i := range list.Items {
		exists[client.ObjectKeyFromObject(&list.Items[i])] = true
	}
	missing := map[client.ObjectKey]int{}
	for i := range queues {
		key := brokers.ConnectionKey(&queues[i])
		if !exists[key] && !queues[i].Spec.Suspend {
			missing[key]++
		}
	}
	for key, count := range missing {
		metrics.ConnectionMissing.Emit(emit, float64(count), key.Namespace, key.Name)
	}
}

func (r *Reconciler) emitMessages(emit metrics.Emit, cq *v1alpha1.ConsumerQueue) {
	broker := r.pool.Get(brokers.ConnectionKey(cq))
	if broker == nil {
		return
	}
	counted := broker.Messages(queueNames(cq.Status.Topology))
	for role, count := range messagesByRole(cq.Status.Topology, counted) {
		if name, emitted := messageRoles[role]; emitted {
			metrics.Messages.Emit(emit, float64(count), cq.Namespace, cq.Name, name)
		}
	}
	if len(counted.Of) > 0 {
		metrics.StuckDeadLetters.Emit(emit, float64(stuckDeadLetters(counted, broker)), cq.Namespace, cq.Name)
	}
}
