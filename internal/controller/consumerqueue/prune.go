package consumerqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// A queue that left the spec is checked again after its TTL, divided by emptyAgainDivisor, but within these limits.
const (
	emptyAgain        = 10 * time.Second
	latestEmptyAgain  = time.Minute
	emptyAgainDivisor = 8
)

func removalOf(decided plan.Plan) rabbit.Removal {
	bindings, exchanges := decided.Removals()
	return rabbit.Removal{Bindings: bindings, Exchanges: exchanges}
}

func removesAny(removal rabbit.Removal) bool { return len(removal.Bindings)+len(removal.Exchanges) > 0 }

// prune tries to delete the queues that left the spec, and reports why Warren retains the others.
func (v *vhostScope) prune(comparison *plan.Comparison) {
	owner := v.key()
	var trying [][]string
	for _, orphan := range comparison.Orphans {
		block := orphan.BlockedBy
		if !orphan.Blocked() && orphan.Entry.Kind == v1alpha1.KindQueue {
			if v.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport {
				block = plan.Blocker{Reason: v1alpha1.AdvisoryReasonReportOnly, Message: "driftPolicy is Report"}
			} else {
				queues := []string{orphan.Entry.Name}
				trying = append(trying, queues)
				g := brokers.Group{Queues: queues, StillDeletable: v.stillDeletable(orphan.Entry)}
				before := v.blockerWhileChecking(orphan.Entry)
				known, err := v.deletions.Ensure(owner, v.connection, v.location.Cluster.Key(), g, v.checkAgain(orphan.Entry, before))
				block = reasonToKeep(err)
				if !known {
					block = before
				}
			}
		}
		if block != (plan.Blocker{}) && orphan.Entry.Kind != v1alpha1.KindBinding {
			comparison.Advisories = append(comparison.Advisories, orphaned(orphan.Entry, block))
		}
	}
	comparison.Advisories = append(comparison.Advisories, boundSources(comparison.Orphans)...)
	if len(trying) == 0 {
		v.deletions.Cancel(owner)
		return
	}
	v.deletions.CancelExcept(owner, trying...)
}

// checkAgain returns how soon a queue that left the spec is checked again.
func (v *vhostScope) checkAgain(entry v1alpha1.TopologyEntry, before plan.Blocker) time.Duration {
	if before != notEmpty {
		return emptyAgain
	}
	observed, _ := v.connection.Observe(vhost.Selection{Queues: []string{entry.Name}})
	ttl, _ := observed.Queues[entry.Name].Arguments[vhost.ArgMessageTTL].(int64)
	return min(max(time.Duration(ttl)*time.Millisecond/emptyAgainDivisor, emptyAgain), latestEmptyAgain)
}

// stillDeletable returns the check that runs right before a queue is fenced: another client may have begun to dead-letter to the queue, or
// another ConsumerQueue may want it. One catch-up serves all checks that wait. A catch-up may need a refresh, which may have to wait, so
// the check sets no time limit. The check holds no slot of deletions.
func (v *vhostScope) stillDeletable(entry v1alpha1.TopologyEntry) func(context.Context) error {
	now := *v
	now.scope = v.frozen()
	return func(ctx context.Context) (err error) {
		if err := now.connection.CatchUp(ctx); err != nil {
			return err
		}
		if now.peers, err = now.view(ctx, now.cq, now.connection, now.location, now.version); err != nil {
			return err
		}
		return checkOrphanRemovable(now.compare(ctx), entry)
	}
}

// checkOrphanRemovable fails if an object must not be deleted.
func checkOrphanRemovable(comparison plan.Comparison, entry v1alpha1.TopologyEntry) error {
	for _, orphan := range comparison.Orphans {
		if orphan.ID() != topology.IDOf(entry) {
			continue
		}
		if orphan.Blocked() {
			return fmt.Errorf("%w: %s", errNeeded, orphan.BlockedBy.Message)
		}
		return nil
	}
	message := fmt.Sprintf("%v is no longer an orphan: it is in the spec again, or no longer exists", topology.IDOf(entry))
	return brokererr.New(message, errNeeded)
}

func orphaned(entry v1alpha1.TopologyEntry, why plan.Blocker) v1alpha1.Advisory {
	return v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryOrphaned, Reason: why.Reason, Name: entry.Name,
		Message: fmt.Sprintf("%v is no longer in the spec; retained: %s", topology.IDOf(entry), why.Message),
	}
}

// boundSources returns an advisory for each reason and pair of a source exchange and a queue, because an exchange may have thousands of
// bindings. Bindings can remain for days, for example while a queue waits for its recreation.
func boundSources(orphans []plan.Orphan) (advisories []v1alpha1.Advisory) {
	type group struct {
		why           plan.Blocker
		source, queue string
	}
	bindings := map[group][]string{}
	for _, orphan := range orphans {
		entry := orphan.Entry
		if orphan.Blocked() && entry.Kind == v1alpha1.KindBinding && entry.Role == v1alpha1.RoleSource {
			of := group{orphan.BlockedBy, entry.Source, entry.Destination}
			bindings[of] = append(bindings[of], strings.TrimSpace(strconv.Quote(entry.RoutingKey)+" "+entry.Arguments))
		}
	}
	for of, keys := range bindings {
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryOrphaned, Reason: of.why.Reason, Name: of.source,
			Message: fmt.Sprintf("bindings of queue %q to exchange %q are no longer in the spec; retained: %s. Routing keys: %s",
				of.queue, of.source, of.why.Message, conditions.FirstN(keys)),
		})
	}
	slices.SortFunc(advisories, func(a, b v1alpha1.Advisory) int { return cmp.Compare(a.Name+a.Message, b.Name+b.Message) })
	return advisories
}

// Blockers that package plan does not report, because they depend on the deletion.
var (
	notEmpty = plan.Blocker{Reason: v1alpha1.AdvisoryReasonNotEmpty, Message: "it holds messages or has consumers"}
	checking = plan.Blocker{Reason: v1alpha1.AdvisoryReasonCheckingEmpty, Message: "checking whether it is empty"}
	// blockedByHiddenBinding is why Warren retains an exchange that the broker refuses to delete although no listed object uses it.
	blockedByHiddenBinding = plan.Blocker{
		Reason:  v1alpha1.AdvisoryReasonInUse,
		Message: "it has a binding that the management API does not list, such as that of an exclusive queue",
	}
)

// blockerWhileChecking returns the Blocker of a queue that is being checked. It returns notEmpty if the status reports that, so that a
// restart does not change the status, and checking otherwise.
func (v *vhostScope) blockerWhileChecking(entry v1alpha1.TopologyEntry) plan.Blocker {
	known := slices.ContainsFunc(v.cq.Status.Advisories, func(advisory v1alpha1.Advisory) bool {
		return advisory.Code == v1alpha1.AdvisoryOrphaned && advisory.Name == entry.Name && advisory.Reason == notEmpty.Reason
	})
	if known {
		return notEmpty
	}
	return checking
}

// reasonToKeep returns why a queue could not be deleted; zero if it was deleted. The message stays the same as long as the reason does, so
// that it causes no writes.
func reasonToKeep(err error) plan.Blocker {
	switch {
	case err == nil:
		return plan.Blocker{}
	case errors.Is(err, brokererr.ErrNotEmpty):
		return notEmpty
	}
	return plan.Blocker{Reason: v1alpha1.AdvisoryReasonDeletionFailed, Message: conditions.ErrorSummary(err)}
}

// onlyInUse reports whether the only failures are deletions of exchanges that have bindings.
func onlyInUse(err error) bool {
	joined, several := err.(interface{ Unwrap() []error })
	if !several {
		return errors.Is(err, brokererr.ErrInUse)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !errors.Is(one, brokererr.ErrInUse) })
}

// formatObjects lists the exchanges and queues among entries; empty if there are none.
func formatObjects(entries []v1alpha1.TopologyEntry) string {
	var names []string
	for _, entry := range entries {
		if entry.Kind != v1alpha1.KindBinding && entry.Role != v1alpha1.RoleSource {
			names = append(names, topology.IDOf(entry).String())
		}
	}
	return conditions.FirstN(names)
}
