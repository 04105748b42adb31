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

// This file decides which ConsumerQueues of other namespaces may share a dead-letter queue, a dead-letter exchange or a retry exchange.
// The namespace that holds the object consents, by a field of any of its ConsumerQueues that have the object. See
// docs/adr/0043-consent-to-sharing.md.

// tenure is what is recorded of a candidate and an object. More is better.
type tenure int

const (
	wanting   tenure = iota
	intending        // it was about to declare the object; the annotation that says so can be forged
	having           // it has had the object in sync
	declaring        // it has had the object in sync, and declared it
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

// holderOf is the candidate that has the best right to an object: the highest tenure, then the oldest, then the first by name.
func holderOf(id vhost.ID, all []Candidate) Candidate {
	return slices.MinFunc(all, func(a, b Candidate) int {
		return cmp.Or(-cmp.Compare(a.tenure(id), b.tenure(id)), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
}

// consenting reports whether one of the candidates in a namespace lets another namespace have an object.
func consenting(id vhost.ID, all []Candidate, holder, to string) bool {
	return holder == to || slices.ContainsFunc(all, func(c Candidate) bool {
		return c.namespace() == holder && slices.Contains(c.Consents[id], v1alpha1.NamespaceName(to))
	})
}

// lacksConsent reports whether a candidate may not begin to share an object with its peers.
func (c Candidate) lacksConsent(id vhost.ID, peers []Candidate) bool {
	if c.tenure(id) >= having {
		return false
	}
	all := append(slices.Clip(peers), c)
	return !consenting(id, all, holderOf(id, all).namespace(), c.namespace())
}

// findMissingConsent finds an object that a ConsumerQueue does not have yet, and may not have without a consent. Where only the cache
// says that others do not have the object either, they are read from the API server.
func (v View) findMissingConsent(ctx context.Context, own Candidate, live client.Reader) (*Conflict, error) {
	fields := own.Desired.Shareable()
	for _, id := range slices.SortedFunc(maps.Keys(fields), vhost.ID.Compare) {
		if own.tenure(id) >= having || !v.isAcrossNamespaces(id) {
			continue
		}
		peers := slices.Collect(v.holders(id))
		if !own.lacksConsent(id, candidatesOf(peers, Same)) {
			if err := v.reread(ctx, id, peers, live); err != nil {
				return nil, err
			}
		}
		if all := candidatesOf(peers, Same); own.lacksConsent(id, all) {
			return &Conflict{Holder: holderOf(id, all).Name, Message: fmt.Sprintf(
				"%v belongs to a ConsumerQueue in another namespace, whose %s does not name namespace %q; "+
					"have it name the namespace, or choose another name here", id, fields[id], own.namespace())}, nil
		}
	}
	return nil, nil
}

// reread replaces those peers of other namespaces that are not known to have an object by what the API server has of them.
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
			p.Candidate = CandidateOf(now, v.version)
		}
	}
	return nil
}

// isAcrossNamespaces reports whether ConsumerQueues of other namespaces own or want an object, or perhaps one with the same mark.
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

// consent is the set of namespaces that the namespace of the ConsumerQueue lets have an object.
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

// Unconsented is an object that two namespaces have, although the one that holds it does not consent.
type Unconsented struct {
	ID vhost.ID
	// Field is the field of a spec that would consent.
	Field string
	// Holds says that the namespace of the ConsumerQueue holds the object, and another one has it too; otherwise it is the reverse.
	Holds bool
}

// Unconsented lists what a ConsumerQueue shares without consent, which was withdrawn.
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

// AffectedByConsent lists the ConsumerQueues whose sharing across namespaces a change of another one concerns: they share an object
// for which the consents changed, or their status says that they share without consent what the other one has or had.
func (x *Index) AffectedByConsent(before, after *v1alpha1.ConsumerQueue) []client.ObjectKey {
	was, is := topology.ConsentsOf(before), topology.ConsentsOf(after)
	x.mu.RLock()
	defer x.mu.RUnlock()
	var sharers []client.ObjectKey
	for _, consents := range []topology.Consents{was, is} {
		for id := range consents {
			if !slices.Equal(was[id], is[id]) {
				sharers = append(sharers, x.active[markOf(id)]...)
			}
		}
	}
	for _, entry := range before.Status.Topology {
		for _, member := range x.active[markOf(topology.IDOf(entry))] {
			if x.records[member].sharesWithoutConsent(entry.Name) {
				sharers = append(sharers, member)
			}
		}
	}
	slices.SortFunc(sharers, compareKeys)
	return slices.Compact(sharers)
}

// sharesWithoutConsent reports whether the status says so of an object.
func (r *record) sharesWithoutConsent(name string) bool {
	return name != "" && slices.ContainsFunc(r.cq.Status.Advisories, func(a v1alpha1.Advisory) bool {
		return a.Code == v1alpha1.AdvisorySharedWithoutConsent && a.Name == name
	})
}
