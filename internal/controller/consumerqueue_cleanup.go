package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
)

// emptyAgain is how soon a queue that left the spec is looked at again, should something else cause a look.
const emptyAgain = 10 * time.Second

// removalOf is what has left the spec and may go at once.
func removalOf(comparison topology.Comparison, policy v1alpha1.DriftPolicy) rabbit.Removal {
	removal := rabbit.Removal{}
	if policy == v1alpha1.DriftPolicyReport {
		return removal
	}
	for _, departure := range comparison.Departures {
		switch {
		case departure.Blocked != "":
		case departure.Entry.Kind == v1alpha1.KindBinding:
			removal.Bindings = append(removal.Bindings, departure.Binding())
		case departure.Entry.Kind == v1alpha1.KindExchange:
			removal.Exchanges = append(removal.Exchanges, departure.Entry.Name)
		}
	}
	return removal
}

func removesAny(removal rabbit.Removal) bool { return len(removal.Bindings)+len(removal.Exchanges) > 0 }

// cleanUp tries to delete the queues that have left the spec, and says of everything that stays why it does.
func (l *look) cleanUp(s *scene, comparison *topology.Comparison) {
	owner := client.ObjectKeyFromObject(l.cq)
	var trying [][]string
	for _, departure := range comparison.Departures {
		name, why := departure.Entry.Name, departure.Blocked
		if why == "" && departure.Entry.Kind == v1alpha1.KindQueue {
			if l.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport {
				why = "driftPolicy is Report"
			} else {
				queues := []string{name}
				trying = append(trying, queues)
				g := group{queues, l.stillLeaving(s, departure.Entry)}
				known, err := l.removals.attempt(owner, s.connection, s.place.cluster.Key(), g, emptyAgain)
				why = reasonToKeep(err)
				if !known {
					why = l.saidBefore(departure.Entry)
				}
			}
		}
		if why != "" && departure.Entry.Kind != v1alpha1.KindBinding {
			comparison.Advisories = append(comparison.Advisories, orphaned(departure.Entry, why))
		}
	}
	if len(trying) == 0 {
		l.removals.forget(owner)
		return
	}
	l.removals.only(owner, trying...)
}

// stillLeaving makes a question that is asked right before a queue is fenced off: is it still to go? Somebody may have begun
// to dead-letter there, or another ConsumerQueue to want it.
func (l *look) stillLeaving(s *scene, entry v1alpha1.TopologyEntry) func(context.Context) error {
	r, cq, now := l.ConsumerQueueReconciler, l.cq.DeepCopy(), *s
	return func(ctx context.Context) (err error) {
		if err := refreshed(ctx, now.connection); err != nil {
			return err
		}
		if now.near, err = r.neighboursOf(ctx, cq, now.place, now.version); err != nil {
			return err
		}
		return mayLeave(now.compare(cq), entry)
	}
}

// mayLeave says why an object must not go.
func mayLeave(comparison topology.Comparison, entry v1alpha1.TopologyEntry) error {
	for _, departure := range comparison.Departures {
		if !topology.SameObject(departure.Entry, entry) {
			continue
		}
		if departure.Blocked != "" {
			return fmt.Errorf("%w: %s", errNeeded, departure.Blocked)
		}
		return nil
	}
	return fmt.Errorf("%w: %s is wanted again, or gone", errNeeded, objectName(entry))
}

// judging is how long a look at the broker may take that is waited for while a deletion holds one of the few places.
const judging = 15 * time.Second

// refreshed waits for a look at the broker.
func refreshed(ctx context.Context, connection *rabbit.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, judging)
	defer cancel()
	return connection.Refresh(ctx)
}

// abstain ends what is being tried: for now nothing is to be done at the broker, and what left the spec may be wanted again.
func (l *look) abstain() { l.removals.forget(client.ObjectKeyFromObject(l.cq)) }

func orphaned(entry v1alpha1.TopologyEntry, why string) v1alpha1.Advisory {
	return v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryOrphaned, Name: entry.Name,
		Message: objectName(entry) + " is not wanted any more and stays for now: " + why,
	}
}

// saidBefore says that a queue is being looked at; but that it was not empty stays said, until the operator, which may have
// been restarted, knows better.
func (l *look) saidBefore(entry v1alpha1.TopologyEntry) string {
	if slices.Contains(l.cq.Status.Advisories, orphaned(entry, notEmpty)) {
		return notEmpty
	}
	return "it is being looked at whether it is empty"
}

const notEmpty = "it holds messages or has consumers"

// reasonToKeep says why a queue could not be deleted, in words that stay the same while the reason does; empty if it was.
func reasonToKeep(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, rabbit.ErrNotEmpty):
		return notEmpty
	}
	return said(err)
}

// boundUnseen is why an exchange stays that the broker does not delete though nothing seems to need it: what is bound by an
// exclusive queue is not shown.
const boundUnseen = "something is bound to it that is not shown, such as an exclusive queue"

// onlyInUse says whether all that failed is the deletion of exchanges that something is bound to.
func onlyInUse(err error) bool {
	joined, several := err.(interface{ Unwrap() []error })
	if !several {
		return errors.Is(err, rabbit.ErrInUse)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !errors.Is(one, rabbit.ErrInUse) })
}

// objectName is how messages call an object.
func objectName(entry v1alpha1.TopologyEntry) string {
	switch entry.Kind {
	case v1alpha1.KindExchange:
		return fmt.Sprintf("exchange %q", entry.Name)
	case v1alpha1.KindQueue:
		return fmt.Sprintf("queue %q", entry.Name)
	}
	return fmt.Sprintf("the binding of queue %q to exchange %q", entry.Destination, entry.Source)
}

// listed names the exchanges and queues among entries; empty if there are none.
func listed(entries []v1alpha1.TopologyEntry) string {
	var names []string
	for _, entry := range entries {
		if entry.Kind != v1alpha1.KindBinding && entry.Role != v1alpha1.RoleSource {
			names = append(names, objectName(entry))
		}
	}
	return firstFew(names)
}
