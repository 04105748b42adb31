package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// errInProgress: the deletion runs in the background, and enqueues the resource when it ends.
var errInProgress = errors.New("in progress")

// errNeeded: an object belongs to, or is used by, another client.
var errNeeded = errors.New("still needed")

// policyRetains is why deletionPolicy retains the whole topology.
const policyRetains = "deletionPolicy is Retain"

// errRetain: deletionPolicy retains the whole topology.
var errRetain = errors.New(policyRetains)

// isFinal reports whether a retry cannot help. A failed proof is not final: the broker may have been slow, another client may have
// changed a policy, or dead letters may leave their queue.
func isFinal(err error) bool {
	return !errors.Is(err, brokererr.ErrPending) &&
		brokererr.IsAny(err, brokererr.ErrNotEmpty, brokererr.ErrAccessRefused, brokererr.ErrOtherCluster, errNeeded)
}

// teardown removes the topology of a deleted ConsumerQueue step by step.
type teardown struct {
	*scope
	holdings

	connection *brokers.Broker
	version    vhost.Version
}

// run deletes delay tiers and the main queue together, then dead-letter queues, then exchanges. It returns the retained objects. After
// an error nothing more is deleted in this reconciliation; isFinal reports whether a retry cannot help.
func (t *teardown) run(ctx context.Context) ([]plan.Retained, error) {
	observed := t.observe()
	here := ownership.Location{Cluster: vhost.ClusterOf(observed.Cluster), VHost: t.connection.VHost()}
	if recorded := ownership.Recorded(t.status.Location); recorded.Cluster.Known() && !here.IsIn(recorded) {
		return nil, fmt.Errorf("%w: the topology is in %v at %s, and BrokerConnection %q leads to %v at %s",
			brokererr.ErrOtherCluster, recorded, recorded.Cluster.Endpoint, t.cq.ConnectionName(), here, here.Cluster.Endpoint)
	}
	if t.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		if t.deletions.Interrupt(t.key()) { // its rollback may fail, which leaves the tiers missing
			return nil, errInProgress
		}
		return nil, t.restoreTiers(ctx, errRetain)
	}
	if t.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && t.mainIsForeign(t.cq, observed) {
		t.retainAdopted(fmt.Sprintf("another client declared both this object and main queue %q", t.cq.QueueName()))
	}
	if err := t.checkRedeclared(observed); err != nil {
		return nil, err
	}
	view, err := t.view(ctx, t.cq, t.connection, here, t.version)
	if err != nil {
		return nil, err
	}
	t.cancelOtherDeletions(t.withRunning(plan.TeardownOf(t.owned, observed, view.Active().SharedWith, nil), observed))
	step := t.withRunning(plan.TeardownOf(t.owned, observed, t.handover.Undecided(view).SharedWith, nil), observed)
	if err := t.deleteWorkQueues(ctx, observed, step); err != nil {
		return nil, t.restoreTiers(ctx, err)
	}
	shared := t.handover.Resolve(t.cq, t.owned, view)
	kept, err := t.deleteDeadLetterQueues(ctx, observed.Cluster, plan.TeardownOf(t.owned, t.observe(), shared, nil))
	if err != nil {
		return nil, err
	}
	step = plan.TeardownOf(t.owned, t.observe(), shared, kept)
	err = t.connection.Remove(ctx, observed.Cluster, rabbit.Removal{Bindings: step.Bindings, Exchanges: step.Exchanges})
	if err != nil && !onlyInUse(err) {
		return nil, err
	}
	observed = t.observe()
	last := plan.TeardownOf(t.owned, observed, shared, kept)
	for _, exchange := range last.Exchanges { // that the broker did not delete
		entry := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: exchange}
		last.Retained = append(last.Retained, plan.Retained{Entry: entry, Reason: blockedByHiddenBinding.Message})
	}
	return append(last.Retained, t.retainedAt(observed)...), nil
}

func (t *teardown) observe() vhost.Observed {
	names := topology.SelectionWith(t.cq, t.inventory())
	names.IncludeDeadLetterSources = true
	observed, _ := t.connection.Observe(names)
	return observed
}

// remaining returns the objects of this resource that still exist; all of them if the connection leads to another cluster.
func (t *teardown) remaining() []v1alpha1.TopologyEntry {
	observed := t.observe()
	here := ownership.Location{Cluster: vhost.ClusterOf(observed.Cluster), VHost: t.connection.VHost()}
	if !here.IsIn(ownership.Recorded(t.cq.Status.Location)) {
		return t.inventory()
	}
	return slices.DeleteFunc(t.inventory(), func(entry v1alpha1.TopologyEntry) bool { return !observed.Has(topology.IDOf(entry)) })
}

// deletesMessages reports whether queues are deleted with their messages: deletionPolicy is Delete, unless all queues are
// unconfirmed.
func (t *teardown) deletesMessages() bool {
	queues := slices.DeleteFunc(slices.Clone(t.owned), func(entry v1alpha1.TopologyEntry) bool { return entry.Kind != v1alpha1.KindQueue })
	isConfirmed := func(queue v1alpha1.TopologyEntry) bool { return !t.unconfirmed[queue.Name] }
	return t.cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && (len(queues) == 0 || slices.ContainsFunc(queues, isConfirmed))
}

// deleteWorkQueues deletes delay tiers and main queue, unless a foreign queue dead-letters to them. With deletionPolicy Delete it
// deletes their messages, too; otherwise they must be provably empty.
func (t *teardown) deleteWorkQueues(ctx context.Context, observed vhost.Observed, step plan.Teardown) error {
	withMessages := t.deletesMessages()
	main := t.cq.QueueName()
	_, exists := observed.Queues[main]
	switch {
	case exists && !withMessages && !slices.Contains(step.WorkQueues, main):
		return fmt.Errorf("%w: Warren did not declare main queue %q, or another ConsumerQueue shares it. Warren retains the queue and "+
			"the objects that it needs", errNeeded, main)
	case step.FeedingQueue != "":
		return fmt.Errorf("%w: queue %q dead-letters to this topology", errNeeded, step.FeedingQueue)
	case len(step.WorkQueues) == 0:
		return nil
	case withMessages:
		return t.deleteWithMessages(ctx, observed.Cluster, step.WorkQueues)
	}
	return t.deleteEmpty(observed.Cluster, step.WorkQueues, t.undecided)
}

// restoreTiers declares missing delay tiers again if the main queue cannot be deleted, and returns why it cannot. A manager that was killed
// may have deleted the tiers, and consumers still publish retries to them. If the tiers cannot be declared, the deletion is retried,
// because the main queue must not remain without them.
func (t *teardown) restoreTiers(ctx context.Context, trouble error) error {
	if t.deletesMessages() || errors.Is(trouble, errInProgress) ||
		t.deletions.AreRunning(t.key()) {
		return trouble
	}
	missing := t.missingTiers()
	if len(missing.Queues) == 0 {
		return trouble
	}
	if err := t.connection.Apply(ctx, missing); err != nil {
		return fmt.Errorf("missing delay tiers cannot be declared again (%w), and the main queue was not deleted (%s)",
			err, conditions.ErrorSummary(trouble))
	}
	names := make([]string, len(missing.Queues))
	for i, queue := range missing.Queues {
		names[i] = queue.Name
	}
	log.FromContext(ctx).Info("Declared delay tiers again", "queues", names, "reason", conditions.ErrorSummary(trouble))
	return trouble
}

// missingTiers returns the delay tiers that an interrupted deletion has deleted beside the main queue.
func (t *teardown) missingTiers() topology.Topology {
	desired, err := topology.Desired(t.cq, t.version)
	if err != nil { // another spec declared the tiers
		return topology.Topology{}
	}
	return plan.HalfDeleted(desired, topology.InventoryOf(t.owned), t.observe())
}

// deleteDeadLetterQueues deletes dead-letter queues one by one, and returns why it retains the remaining ones.
func (t *teardown) deleteDeadLetterQueues(
	ctx context.Context, cluster string, step plan.Teardown,
) (kept map[string]string, err error) {
	if t.deletesMessages() {
		return nil, t.deleteWithMessages(ctx, cluster, step.DeadLetterQueues)
	}
	kept = map[string]string{}
	for _, queue := range step.DeadLetterQueues {
		err := t.deleteEmpty(cluster, []string{queue}, t.handover.Resolve)
		switch {
		case err == nil:
		case isFinal(err):
			kept[queue] = conditions.ErrorSummary(err)
		default:
			return nil, err
		}
	}
	return kept, nil
}

// deleteWithMessages deletes queues one after the other. A queue whose origin is unknown is deleted only if it is empty.
func (t *teardown) deleteWithMessages(ctx context.Context, cluster string, queues []string) error {
	for _, queue := range queues {
		var err error
		if t.unconfirmed[queue] {
			err = t.deleteEmpty(cluster, []string{queue}, t.undecided)
		} else {
			err = t.deleteNow(ctx, cluster, queue)
		}
		if t.unconfirmed[queue] && err != nil && isFinal(err) {
			t.retain(queue, conditions.ErrorSummary(err))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteWithin is how long after the read of a resource one of its queues may be deleted with its messages. It is less than the
// 15 s after which another manager can take the lead.
const deleteWithin = 10 * time.Second

// deleteNow deletes a queue with its messages if the resource is unchanged at the API server. This manager may have been paused and no
// longer lead. The next leader may have finished the deletion, and declared the queue for a new resource.
func (t *teardown) deleteNow(ctx context.Context, cluster, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	if err := t.verifyNotStale(ctx); err != nil {
		return err
	}
	return t.connection.Remove(ctx, cluster, rabbit.Removal{Queues: []string{queue}})
}

// withRunning replaces the work queues of a step by the group of the running attempt, which may have deleted some queues already.
func (t *teardown) withRunning(step plan.Teardown, observed vhost.Observed) plan.Teardown {
	if !t.deletesMessages() { // otherwise one queue is deleted after the other
		step.WorkQueues = t.deletions.WholeGroup(t.key(), step.WorkQueues, func(queue string) bool {
			_, exists := observed.Queues[queue]
			return exists
		})
	}
	return step
}

// cancelOtherDeletions cancels attempts of an earlier step, and pruning that began before the deletion of the resource.
func (t *teardown) cancelOtherDeletions(step plan.Teardown) {
	groups := slices.Collect(slices.Chunk(step.DeadLetterQueues, 1))
	if t.deletesMessages() { // see deleteWithMessages
		groups = slices.AppendSeq(groups, slices.Chunk(step.WorkQueues, 1))
	}
	t.deletions.CancelExcept(t.key(), append(groups, step.WorkQueues)...)
}

// sharing returns a function that describes which peer shares an object of a ConsumerQueue that is being deleted.
type sharing func(cq *v1alpha1.ConsumerQueue, owned []v1alpha1.TopologyEntry, view ownership.View) func(v1alpha1.TopologyEntry) string

// undecided is the sharing with peers that can still take over objects.
func (t *teardown) undecided(
	_ *v1alpha1.ConsumerQueue, _ []v1alpha1.TopologyEntry, view ownership.View,
) func(v1alpha1.TopologyEntry) string {
	return t.handover.Undecided(view).SharedWith
}

func (t *teardown) deleteEmpty(cluster string, queues []string, shared sharing) error {
	g := brokers.Group{Queues: queues, StillDeletable: t.stillDeletable(cluster, queues, shared)}
	known, err := t.deletions.Ensure(t.key(), t.connection, cluster, g, terminationRetry)
	if !known {
		return errInProgress
	}
	return err
}

// stillDeletable returns the check that runs right before queues are fenced: another client may have begun to dead-letter to them, or
// another ConsumerQueue may want them. See vhostScope.stillDeletable.
func (t *teardown) stillDeletable(cluster string, queues []string, shared sharing) func(context.Context) error {
	now := *t
	now.scope = t.frozen()
	return func(ctx context.Context) error {
		if err := now.connection.CatchUp(ctx); err != nil {
			return err
		}
		here := ownership.Location{Cluster: vhost.ClusterOf(cluster), VHost: now.connection.VHost()}
		view, err := now.view(ctx, now.cq, now.connection, here, now.version)
		if err != nil {
			return err
		}
		observed := now.observe()
		return checkQueuesRemovable(plan.TeardownOf(now.owned, observed, shared(now.cq, now.owned, view), nil), observed, queues)
	}
}

// checkQueuesRemovable returns why one of these queues must not be deleted; nil if all may.
func checkQueuesRemovable(step plan.Teardown, observed vhost.Observed, queues []string) error {
	for _, queue := range queues {
		_, exists := observed.Queues[queue]
		work := slices.Contains(step.WorkQueues, queue)
		switch {
		case work && step.FeedingQueue != "":
			return fmt.Errorf("%w: queue %q dead-letters to this topology", errNeeded, step.FeedingQueue)
		case exists && !work && !slices.Contains(step.DeadLetterQueues, queue):
			return fmt.Errorf("%w: queue %q: %s", errNeeded, queue, whyRetained(step, queue))
		}
	}
	return nil
}

func whyRetained(step plan.Teardown, queue string) string {
	for _, stay := range step.Retained {
		if stay.Entry.Kind == v1alpha1.KindQueue && stay.Entry.Name == queue {
			return stay.Reason
		}
	}
	return "Warren did not declare it"
}

// deletedListingLag is how long another node of the broker may still list a deleted queue.
const deletedListingLag = 5 * time.Second

// checkRedeclared returns an error if a deleted queue is listed again. Within deletedListingLag, the list may be old, so the deletion is
// retried. Later, another client has declared the queue, and might do so after each deletion, so a retry cannot help.
func (t *teardown) checkRedeclared(observed vhost.Observed) error {
	queue, since := t.deletions.Reappeared(t.key(), func(queue string) bool {
		_, exists := observed.Queues[queue]
		return exists
	})
	switch {
	case queue == "":
		return nil
	case since < deletedListingLag:
		return fmt.Errorf("queue %q was deleted, but the broker still lists it. "+
			"The list may be old, or another client has declared the queue again", queue)
	}
	return fmt.Errorf("%w: queue %q was deleted, and another client declared it again", errNeeded, queue)
}
