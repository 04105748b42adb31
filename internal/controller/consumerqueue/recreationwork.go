package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

type recreationWork struct {
	*Reconciler

	key        client.ObjectKey
	status     v1alpha1.RecreationStatus // as written when the work began
	recreation recreate.Recreation
	engine     brokers.Recreator
	connection *brokers.Broker
	version    vhost.Version
	// configMap has the contract of consumers that may be asked to pause; empty if they may not.
	configMap string
	// former is the last result of phase Waiting. isInUse reports whether a recreation waits for consumers or messages of the queue.
	former  phaseResult
	isInUse func(recreate.QueueSeen) bool
}

// run does the work of the phase in the status.
func (w *recreationWork) run(ctx context.Context, report func(recreate.Progress)) (result phaseResult) {
	switch w.status.Phase {
	case v1alpha1.RecreationWaiting:
		result = w.inspect(ctx)
		if result.err == nil && result.seen.Queue.Consumers > 0 && w.configMap != "" {
			result.listed, result.following = w.engine.Consumers(ctx, w.recreation, w.configMap)
		}
	case v1alpha1.RecreationDiverting:
		result.err = w.engine.Divert(ctx, w.recreation, w.recordBindings)
	case v1alpha1.RecreationEmptying:
		result.progress, result.err = w.engine.Empty(ctx, w.recreation, report)
	case v1alpha1.RecreationSwapping:
		result.swapped, result.err = w.engine.Swap(ctx, w.recreation, w.recordDeleteSent)
	case v1alpha1.RecreationGivingBack:
		result.progress, result.err = w.engine.GiveBack(ctx, w.recreation, report)
		if result.err == nil {
			result.err = w.catchUp(ctx)
		}
	}
	countWork(w.status.Phase, result)
	return result
}

// catchUp lets the next comparison see the queue. In a cluster a refresh can take a second, so catchUp does not wait for it if the
// snapshot has the new queue, as after a swap of this process. After the swap of a delay tier without a hold, it waits: the event of the
// deletion may still come, and remove the queue from the snapshot.
func (w *recreationWork) catchUp(ctx context.Context) error {
	observed, _ := w.connection.Observe(vhost.Selection{Queues: []string{w.status.Queue}})
	known, exists := observed.Queues[w.status.Queue]
	isNew := exists && known.Arguments.Equal(w.recreation.Queue.Arguments)
	if isNew && !w.recreation.WithoutHold && w.connection.Health().Nodes > 1 {
		w.connection.RequestCatchUp()
		return nil
	}
	return w.connection.CatchUp(ctx)
}

// inspect checks and inspects the queue. That takes about eight requests to the management API, and a queue can be in use for days. So
// inspect usually only counts the consumers and messages of a queue in use.
func (w *recreationWork) inspect(ctx context.Context) (result phaseResult) {
	if former := w.former; former.err == nil && time.Since(former.checked) < checkInterval {
		queue, err := w.engine.Count(ctx, w.recreation)
		if err != nil {
			return phaseResult{err: err}
		}
		if w.isInUse(queue) {
			former.seen.Queue.Consumers, former.seen.Queue.Ready, former.onlyCounted = queue.Consumers, queue.Ready, true
			return former
		}
	}
	if result.err = w.engine.Check(ctx, w.recreation); result.err == nil {
		result.seen, result.err = w.engine.Inspect(ctx, w.recreation)
	}
	result.checked = time.Now()
	return result
}

// decideBy decides by the consumers and messages of the queue.
func decideBy(queue recreate.QueueSeen, next plan.Recreation, moment plan.Moment) plan.Verdict {
	moment.Consumers, moment.Ready = queue.Consumers, int64(queue.Ready)
	return next.Decide(moment)
}

// errOutdatedWork ends work if the status has changed since, for example by another manager.
var errOutdatedWork = errors.New("the status of the recreation has changed")

// record changes the status of the recreation at the API server while the work runs. It returns errOutdatedWork if other work on the
// same recreation has begun since. It returns an error of change as it is.
func (w *recreationWork) record(ctx context.Context, change func(*v1alpha1.ConsumerQueue) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := &v1alpha1.ConsumerQueue{}
		if err := w.live.Get(ctx, w.key, now); err != nil {
			return fmt.Errorf("read the status of recreation %s: %w", w.status.ID, err)
		}
		status := now.Status.Recreation
		if status == nil || status.ID != w.status.ID || status.Runs != w.status.Runs {
			return errOutdatedWork
		}
		if err := change(now); err != nil {
			return err
		}
		if err := w.statuses.Update(ctx, w.client, now); err != nil {
			return fmt.Errorf("write the status of recreation %s: %w", w.status.ID, err)
		}
		return nil
	})
}

func (w *recreationWork) recordBindings(ctx context.Context, bindings []vhost.Binding) error {
	recorded := recordedBindings(bindings)
	return w.record(ctx, func(now *v1alpha1.ConsumerQueue) error {
		now.Status.Recreation.Bindings = recorded
		return nil
	})
}

// recordDeleteSent fails if the user has aborted the recreation since the work began. It writes the status only if the resource has not
// changed since it was read. So an abort comes either before the record, and prevents the delete, or after it, and has no effect.
func (w *recreationWork) recordDeleteSent(ctx context.Context) error {
	return w.record(ctx, func(now *v1alpha1.ConsumerQueue) error {
		desired, _ := topology.Desired(now, w.version) // a spec that cannot be read does not ask for the old queue
		if reason, message := backOutReason(now, desired, w.connection, w.status); reason != "" {
			return &recreate.Error{Reason: recreate.Aborted, Message: message}
		}
		now.Status.Recreation.DeleteSent = true
		return nil
	})
}

func recordedBindings(bindings []vhost.Binding) []v1alpha1.RecordedBinding {
	recorded := make([]v1alpha1.RecordedBinding, len(bindings))
	for i, binding := range bindings {
		recorded[i] = v1alpha1.RecordedBinding{Source: binding.Source, RoutingKey: binding.RoutingKey}
		if len(binding.Arguments) > 0 {
			recorded[i].Arguments = binding.Arguments.JSON()
		}
	}
	return recorded
}

// recordable returns as many bindings of a hold as fit into the status, because another client may have bound the hold, too. GiveBack needs
// recorded bindings only if the hold is gone.
func recordable(bindings []vhost.Binding) []vhost.Binding {
	left := recreate.MaxBindingBytes
	for i, binding := range bindings {
		left -= len(binding.Arguments.JSON())
		if i == recreate.MaxBindings || left < 0 {
			return bindings[:i]
		}
	}
	return bindings
}

// workOf returns the work of a recreation whose status was written.
func (v *vhostScope) workOf(status v1alpha1.RecreationStatus) (*recreationWork, error) {
	arguments, err := vhost.ParseArguments(status.NewArguments)
	if err != nil {
		return nil, fmt.Errorf("status.recreation.newArguments: %w", err)
	}
	of := recreate.Recreation{
		ID: status.ID, Queue: topology.Queue{Name: status.Queue, Role: v.roleOf(status.Queue), Arguments: arguments},
		WithoutHold: v.isWithoutHold(status), Moves: plan.MovesMessages(topology.RecreationOf(v.cq), v.roleOf(status.Queue)),
		Emptied: status.EmptiedTime != nil, DeleteSent: status.DeleteSent,
		Tiers: v.tiersReturningTo(status.Queue), AcceptsPast: v.acceptsPast(status),
		StatusLost: status.BackOutReason == v1alpha1.BackOutStatusLost,
	}
	for _, recorded := range status.Bindings {
		arguments, err := vhost.ParseArguments(recorded.Arguments)
		if err != nil {
			return nil, fmt.Errorf("status.recreation.bindings: %w", err)
		}
		of.Bindings = append(of.Bindings, vhost.Binding{
			Source: recorded.Source, Destination: status.Queue, RoutingKey: recorded.RoutingKey, Arguments: arguments,
		})
	}
	return &recreationWork{
		Reconciler: v.Reconciler, key: v.key(), status: status, recreation: of,
		engine: v.connection.Recreator(v.location.Cluster.Key()), connection: v.connection, version: v.version,
	}, nil
}

// isWithoutHold reports whether a recreation has no hold queue: a delay tier without bindings needs none.
func (v *vhostScope) isWithoutHold(status v1alpha1.RecreationStatus) bool {
	if status.IsUnderWay() {
		return status.Hold == ""
	}
	observed, _ := v.connection.Observe(vhost.Selection{Queues: []string{status.Queue}})
	return v.roleOf(status.Queue) == v1alpha1.RoleDelayTier && len(observed.BindingsTo[status.Queue]) == 0
}

// acceptsPast reports whether messages that came past the bindings are moved like other messages. The user decides only for the main queue.
// Retries always reach a delay tier by its name, and dead letters a DLQ.
func (v *vhostScope) acceptsPast(status v1alpha1.RecreationStatus) bool {
	return topology.RecreationOf(v.cq).AcceptPastBindings || v.roleOf(status.Queue) != v1alpha1.RoleMain
}

// roleOf returns the role of a queue. After the status was lost, only the spec has it.
func (v *vhostScope) roleOf(queue string) v1alpha1.Role {
	role := v.known[vhost.QueueID(queue)].Role
	for _, desired := range v.desired.Queues {
		if role == "" && desired.Name == queue {
			return desired.Role
		}
	}
	return role
}

func (v *vhostScope) tiersReturningTo(queue string) []string {
	observed, _ := v.connection.Observe(topology.SelectionWith(v.cq, v.owned))
	return plan.TiersReturningTo(queue, v.owned, observed)
}

// outcomes maps the reasons of errors to the outcomes of a phase. Any other reason is PhaseRefused.
var outcomes = map[recreate.Reason]plan.Outcome{
	"":                              plan.PhaseFailed,
	recreate.DeleteUncertain:        plan.PhaseFailed,
	recreate.Aborted:                plan.PhaseFailed, // see backedOut
	recreate.ConsumersCameBack:      plan.PhaseConsumersCame,
	recreate.DeadLetterSourceInUse:  plan.PhaseSourceInUse,
	recreate.MessagesPending:        plan.PhaseUnproven, // there is nothing to move yet
	recreate.NotProven:              plan.PhaseUnproven,
	recreate.PublishersPastBindings: plan.PhaseNotEmpty,
}

// endOfPhase describes for plan.NextStep how the work of a phase ended.
func (v *vhostScope) endOfPhase(status v1alpha1.RecreationStatus, result phaseResult, now metav1.Time) plan.PhaseEnd {
	settings := topology.RecreationOf(v.cq)
	ended := plan.PhaseEnd{
		Outcome: plan.PhaseDone, WithoutHold: v.isWithoutHold(status),
		Accepts: v.acceptsPast(status),
		Settled: status.EmptiedTime != nil && now.Sub(status.EmptiedTime.Time) >= settings.SettleTimeout,
	}
	reason := recreate.ReasonOf(result.err)
	isSwapped := status.Phase == v1alpha1.RecreationSwapping && result.err == nil
	// No other error may hide messages that came past the bindings and are refused, because the next attempt does not find them again.
	matters := result.err == nil || reason == recreate.PublishersPastBindings || !ended.Accepts
	if past := result.past(); past > 0 && !isSwapped && matters {
		ended.Outcome = plan.PhaseMessagesCame
		advice := "set the mandatory flag in these publishers, then set spec.recreation.publishersPastBindings to Accept"
		if ended.Accepts {
			advice = "these publishers must publish through an exchange that the queue is bound to"
		}
		ended.Message = fmt.Sprintf("clients published %s to queue %q by its name, not through a binding: %s",
			text.Count(past, "message"), status.Queue, advice)
		return ended
	}
	if result.err == nil {
		return ended
	}
	ended.Message = conditions.TruncateEncoded(conditions.ErrorSummary(result.err), maxValue)
	outcome, known := outcomes[reason]
	if !known {
		outcome = plan.PhaseRefused
	}
	if ended.WithoutHold && reason == recreate.PublishersPastBindings {
		outcome = plan.PhaseMessagesCame
	}
	ended.Outcome = outcome
	return ended
}

// The directions in which a recreation moves messages, in metrics.
const (
	toBacklog = "to_backlog"
	back      = "back"
)

// countWork adds the messages and times of a phase to the metrics.
func countWork(phase v1alpha1.RecreationPhase, result phaseResult) {
	direction := toBacklog
	if phase == v1alpha1.RecreationGivingBack {
		direction = back
	}
	metrics.RecreationMessages.Add(float64(result.moved()), direction)
	metrics.RecreationPastBindings.Add(float64(result.past()))
	if result.swapped.FenceStood > 0 {
		metrics.RecreationFence.Observe(result.swapped.FenceStood)
	}
	if result.swapped.Absent > 0 {
		metrics.RecreationSwap.Observe(result.swapped.Absent)
	}
}
