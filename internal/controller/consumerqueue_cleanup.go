package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
				group := []string{name}
				trying = append(trying, group)
				known, err := l.removals.attempt(owner, s.connection, s.place.cluster, group, emptyAgain)
				why = reasonToKeep(err)
				if !known {
					why = l.saidBefore(name)
				}
			}
		}
		if why != "" && departure.Entry.Kind != v1alpha1.KindBinding {
			comparison.Advisories = append(comparison.Advisories, orphaned(departure.Entry, why))
		}
	}
	l.removals.only(owner, trying...)
}

// abstain ends what is being tried: for now nothing is to be done at the broker, and what left the spec may be wanted again.
func (l *look) abstain() { l.removals.only(client.ObjectKeyFromObject(l.cq)) }

func orphaned(entry v1alpha1.TopologyEntry, why string) v1alpha1.Advisory {
	return v1alpha1.Advisory{
		Code: v1alpha1.AdvisoryOrphaned, Name: entry.Name,
		Message: objectName(entry) + staysFor + why,
	}
}

const staysFor = " is not wanted any more and stays for now: "

// saidBefore keeps what was said of an orphan until the operator, which may have been restarted, knows better.
func (l *look) saidBefore(name string) string {
	for _, advisory := range l.cq.Status.Advisories {
		if advisory.Code == v1alpha1.AdvisoryOrphaned && advisory.Name == name {
			if _, why, found := strings.Cut(advisory.Message, staysFor); found {
				return why
			}
		}
	}
	return "it is being looked at whether it is empty"
}

// reasonToKeep says why a queue could not be deleted, in words that stay the same while the reason does; empty if it was.
func reasonToKeep(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, rabbit.ErrNotEmpty):
		return "it holds messages or has consumers"
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

// listed names the exchanges and queues among entries.
func listed(entries []v1alpha1.TopologyEntry) string {
	var names []string
	for _, entry := range entries {
		if entry.Kind != v1alpha1.KindBinding && entry.Role != v1alpha1.RoleSource {
			names = append(names, objectName(entry))
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return firstFew(names)
}
