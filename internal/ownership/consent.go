package ownership

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// This file decides which ConsumerQueues of other namespaces may share a dead-letter queue, a dead-letter exchange or a retry
// exchange. The namespace that holds the object consents, through a field of any of its ConsumerQueues that have the object. See ADR
// 0043.

// tenure is the recorded relation of a candidate to an object, from the weakest to the strongest.
type tenure int

const (
	wanting   tenure = iota
	intending        // Warren was about to declare the object; the annotation that records this can be forged
	having           // the object was in sync
	declaring        // the object was in sync, and Warren declared it
)

func (c Candidate) tenure(id vhost.ID) tenure {
	at := slices.IndexFunc(c.Owned, func(entry v1alpha1.TopologyEntry) bool { return topology.IDOf(entry) == id })
	switch {
	case at < 0:
		return wanting
	case c.Owned[at].LastSyncedHash == "":
		return intending
	case c.Owned[at].Origin == v1alpha1.OriginDeclared:
		return declaring
	}
	return having
}

// certainlyHas reports whether a candidate certainly had an object in sync at this location.
func (c Candidate) certainlyHas(id vhost.ID) bool {
	return c.doubt == certain && c.tenure(id) >= having
}

// holderOf returns the candidate with the best right to an object: the highest tenure, then the least doubt, then the oldest, then
// the first by name.
func holderOf(id vhost.ID, all []Candidate) Candidate {
	return slices.MinFunc(all, func(a, b Candidate) int {
		return cmp.Or(-cmp.Compare(a.tenure(id), b.tenure(id)), cmp.Compare(a.doubt, b.doubt),
			a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
}

// consenting reports whether the holder's namespace shares an object with a namespace. A namespace shares with itself.
func consenting(id vhost.ID, all []Candidate, holder, to string) bool {
	return holder == to || slices.ContainsFunc(all, func(c Candidate) bool {
		return c.namespace() == holder && slices.Contains(c.Consents[id], v1alpha1.NamespaceName(to))
	})
}

// lacksConsent reports whether a candidate lacks the consent to start sharing an object with its peers.
func (c Candidate) lacksConsent(id vhost.ID, peers []Candidate) bool {
	if c.certainlyHas(id) {
		return false
	}
	all := append(slices.Clip(peers), c)
	return !consenting(id, all, holderOf(id, all).namespace(), c.namespace())
}

// findMissingConsent returns a conflict over an object that a ConsumerQueue does not have yet and for which it lacks consent. Before it
// relies on peers that lack the object in the cache, it reads them from the API server.
func (v View) findMissingConsent(ctx context.Context, own Candidate, live client.Reader) (*Conflict, error) {
	fields := own.Desired.Shareable()
	for _, id := range slices.SortedFunc(maps.Keys(fields), vhost.ID.Compare) {
		if own.certainlyHas(id) || !v.isAcrossNamespaces(id) {
			continue
		}
		peers := slices.Collect(v.holders(id))
		if !own.lacksConsent(id, candidatesOf(peers, Same)) {
			if err := v.reread(ctx, id, peers, live); err != nil {
				return nil, err
			}
		}
		if all := candidatesOf(peers, Same); own.lacksConsent(id, all) {
			return &Conflict{Message: fmt.Sprintf(
				"%v belongs to a ConsumerQueue in another namespace: ask its owner to add namespace %q to %s, or choose another name",
				id, own.namespace(), fields[id])}, nil
		}
	}
	return nil, nil
}

// reread updates peers of other namespaces from the API server. It skips peers that are known to have the object, and peers that may be at
// another broker.
func (v View) reread(ctx context.Context, id vhost.ID, peers []Peer, live client.Reader) error {
	for i := range peers {
		p := &peers[i]
		if !p.foreign || p.near == Perhaps || p.near == Same && p.tenure(id) >= having {
			continue
		}
		now, near, err := v.read(ctx, p.key, live)
		if err != nil {
			return err
		}
		p.near = near
		if now != nil {
			p.Candidate = v.withoutForgeable(now, CandidateOf(now, v.version))
		}
	}
	return nil
}

// isAcrossNamespaces reports whether ConsumerQueues of other namespaces may own or need an object. A different object with the
// same mark can cause a false positive.
func (v View) isAcrossNamespaces(id vhost.ID) bool {
	v.index.mu.RLock()
	defer v.index.mu.RUnlock()
	for _, members := range [][]client.ObjectKey{v.index.active[markOf(id)], v.index.leaving[markOf(id)]} {
		if len(members) > 0 && (members[0].Namespace != v.self.Namespace || members[len(members)-1].Namespace != v.self.Namespace) {
			return true // members are sorted by namespace
		}
	}
	return false
}

// consent returns the namespaces with which the namespace of the ConsumerQueue shares an object.
func (v View) consent(id vhost.ID) map[string]bool {
	if !v.isAcrossNamespaces(id) {
		return nil
	}
	namespaces := map[string]bool{}
	add := func(consents topology.Consents) {
		for _, namespace := range consents[id] {
			namespaces[string(namespace)] = true
		}
	}
	add(v.consents)
	for p := range v.Active().holders(id) {
		if p.near == Same && !p.foreign {
			add(p.Consents)
		}
	}
	return namespaces
}

// WantedByConsent reports whether a ConsumerQueue of another namespace wants an object that this namespace shares with it. The location of
// that ConsumerQueue does not matter, because it is unknown until AMQP and the management API of its connection are matched.
func (v View) WantedByConsent(id vhost.ID) bool {
	consent := v.consent(id)
	for other := range v.index.each(func() []client.ObjectKey { return v.index.wants[markOf(id)] }) {
		if v.isForeign(other.cq) && consent[other.cq.Namespace] && other.candidate(v.version).Desired.Wants(id) {
			return true
		}
	}
	return false
}

// Unconsented is an object that two namespaces share although its holder does not consent.
type Unconsented struct {
	ID vhost.ID
	// Field is the field of a spec that would give consent.
	Field string
	// Holds is true if the namespace of the ConsumerQueue holds the object, and false if the other namespace does.
	Holds bool
}

// Unconsented returns the objects that a ConsumerQueue shares after the consent was withdrawn.
func (v View) Unconsented(own Candidate) []Unconsented {
	fields := own.Desired.Shareable()
	var found []Unconsented
	for _, id := range slices.SortedFunc(maps.Keys(fields), vhost.ID.Compare) {
		if own.tenure(id) < having || !v.isAcrossNamespaces(id) {
			continue
		}
		all := slices.DeleteFunc(candidatesOf(slices.Collect(v.Active().holders(id)), Same), func(c Candidate) bool {
			return c.tenure(id) < having || c.Desired.Shareable()[id] == ""
		})
		all = append(all, own)
		holder := holderOf(id, all).namespace()
		missing := slices.ContainsFunc(all, func(c Candidate) bool {
			return (c.namespace() == own.namespace() || holder == own.namespace()) && !consenting(id, all, holder, c.namespace())
		})
		if missing {
			found = append(found, Unconsented{ID: id, Field: fields[id], Holds: holder == own.namespace()})
		}
	}
	return found
}

// AffectedByConsent returns the ConsumerQueues that a change of consents affects. They share an object whose consents changed, or
// their status reports missing consent for an object of the changed ConsumerQueue.
func (x *Index) AffectedByConsent(before, after *v1alpha1.ConsumerQueue) []client.ObjectKey {
	was, is := topology.ConsentsOf(before), topology.ConsentsOf(after)
	x.mu.RLock()
	defer x.mu.RUnlock()
	var affected []client.ObjectKey
	for _, consents := range []topology.Consents{was, is} {
		for id := range consents {
			if !slices.Equal(was[id], is[id]) {
				affected = append(affected, x.active[markOf(id)]...)
			}
		}
	}
	for _, entry := range before.Status.Topology {
		for _, member := range x.active[markOf(topology.IDOf(entry))] {
			if x.records[member].sharesWithoutConsent(entry.Name) {
				affected = append(affected, member)
			}
		}
	}
	slices.SortFunc(affected, compareKeys)
	return slices.Compact(affected)
}

// sharesWithoutConsent reports whether the status has the advisory SharedWithoutConsent for an object.
func (r *record) sharesWithoutConsent(name string) bool {
	return name != "" && slices.ContainsFunc(r.cq.Status.Advisories, func(a v1alpha1.Advisory) bool {
		return a.Code == v1alpha1.AdvisorySharedWithoutConsent && a.Name == name
	})
}
