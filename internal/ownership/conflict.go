package ownership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Candidate is a ConsumerQueue as far as it matters to others in the same vhost.
type Candidate struct {
	// Name is namespace/name.
	Name    string
	Created time.Time
	// Desired is what it wants; empty where its spec cannot become a topology.
	Desired topology.Topology
	// Owned is what Warren declared or took over for it.
	Owned []v1alpha1.TopologyEntry
	// Consents are what it lets other namespaces have, too.
	Consents topology.Consents
}

// Conflict says why a ConsumerQueue cannot have what it wants.
type Conflict struct {
	// Holder is the namespace/name of the ConsumerQueue that has the better right. It is not for messages.
	Holder  string
	Message string
}

// overlap is an object that two candidates cannot both have.
type overlap struct {
	about v1alpha1.TopologyEntry // which of the two has it decides
	what  string
	// theirKey is the other candidate's routing key where two bindings overlap: patterns can do so without being equal.
	theirKey string
}

// theirs is what the overlap is about on the other side.
func (d overlap) theirs() v1alpha1.TopologyEntry {
	about := d.about
	about.RoutingKey = d.theirKey
	return about
}

// FindConflict finds the first conflict that a candidate loses against one of the others; nil if there is none. Exchanges and
// dead-letter queues can be shared, in the same role and with equal settings; main queues and delay tiers cannot. Who
// holds an object just as it wants it keeps it, then who holds it at all; between newcomers it is the oldest, then the
// first by name.
func FindConflict(own Candidate, others []Candidate) *Conflict {
	for _, other := range others {
		for _, d := range overlaps(own.Desired, other.Desired) {
			if own.outranks(other, d) {
				continue
			}
			return &Conflict{Holder: other.Name, Message: d.message(own, other)}
		}
	}
	return nil
}

// message says why an object cannot be had. Of a ConsumerQueue in another namespace, which the reader may not know of, it tells
// neither the name nor what it wants.
func (d overlap) message(own, other Candidate) string {
	const advice = "choose another name here or there, or the same settings where both mean to share it"
	if other.namespace() == own.namespace() {
		return fmt.Sprintf("ConsumerQueue %s %s; %s", other.Name, d.what, advice)
	}
	object := fmt.Sprintf("queue %q", d.about.Name)
	switch d.about.Kind {
	case v1alpha1.KindExchange:
		object = fmt.Sprintf("exchange %q", d.about.Name)
	case v1alpha1.KindBinding:
		object = fmt.Sprintf("routing key %q of exchange %q", d.about.RoutingKey, d.about.Source)
	}
	return fmt.Sprintf("a ConsumerQueue in another namespace wants %s for itself, or with other settings; %s", object, advice)
}

func (c Candidate) namespace() string {
	namespace, _, _ := strings.Cut(c.Name, "/")
	return namespace
}

// NeedsLiveRead lists the others that a newcomer beats only because they are not known to hold what both want.
func NeedsLiveRead(own Candidate, others []Candidate) []string {
	var names []string
	for _, other := range others {
		both := func(d overlap) bool {
			return own.precedence(d.about) == newcomer && other.precedence(d.theirs()) == newcomer
		}
		if slices.ContainsFunc(overlaps(own.Desired, other.Desired), both) {
			names = append(names, other.Name)
		}
	}
	return names
}

// precedence is how good a candidate's right to an object is.
type precedence int

const (
	newcomer precedence = iota
	holder
	holderAsWanted
)

func (c Candidate) outranks(other Candidate, about overlap) bool {
	mine, theirs := c.precedence(about.about), other.precedence(about.theirs())
	switch {
	case mine != theirs:
		return mine > theirs
	case !c.Created.Equal(other.Created):
		return c.Created.Before(other.Created)
	}
	return c.Name < other.Name
}

func (c Candidate) precedence(about v1alpha1.TopologyEntry) precedence {
	at := slices.IndexFunc(c.Owned, func(entry v1alpha1.TopologyEntry) bool { return c.isAbout(entry, about) })
	switch {
	case at < 0:
		return newcomer
	case c.Owned[at].LastSyncedHash != "" && c.Owned[at].LastSyncedHash == c.Desired.HashOf(topology.IDOf(c.Owned[at])):
		return holderAsWanted
	}
	return holder
}

// isAbout says whether an entry of a candidate is what an overlap is about: an exchange or queue by its name, a binding by
// its source and key and where this candidate leads it.
func (c Candidate) isAbout(entry, about v1alpha1.TopologyEntry) bool {
	if about.Kind != v1alpha1.KindBinding {
		return entry.Kind == about.Kind && entry.Name == about.Name
	}
	return entry.Kind == about.Kind && entry.Source == about.Source && entry.RoutingKey == about.RoutingKey &&
		slices.ContainsFunc(c.Desired.Bindings, func(b topology.Binding) bool { return b.ID() == topology.IDOf(entry) })
}

// overlaps lists what two topologies cannot both have.
func overlaps(own, other topology.Topology) []overlap {
	var found []overlap
	for _, mine := range own.Queues {
		for _, theirs := range other.Queues {
			if mine.Name == theirs.Name {
				found = append(found, queueOverlap(mine, theirs)...)
			}
		}
	}
	for _, mine := range own.Exchanges {
		for _, theirs := range other.Exchanges {
			if mine.Name == theirs.Name && mine.Declare && theirs.Declare {
				found = append(found, exchangeOverlap(mine, theirs)...)
			}
		}
	}
	for _, mine := range own.Bindings {
		if mine.Role == v1alpha1.RoleSource {
			continue
		}
		for _, theirs := range other.Bindings {
			if mine.Role == theirs.Role && mine.Source == theirs.Source && mine.Destination != theirs.Destination {
				found = append(found, bindingOverlap(own, mine, theirs)...)
			}
		}
	}
	return found
}

// roleNames are how messages call the roles.
var roleNames = map[v1alpha1.Role]string{
	v1alpha1.RoleMain: "main queue", v1alpha1.RoleDelayTier: "delay tier", v1alpha1.RoleDeadLetter: "dead-letter",
	v1alpha1.RoleRetry: "retry", v1alpha1.RoleSource: "source",
}

func queueOverlap(mine, theirs topology.Queue) []overlap {
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: mine.Name}
	shareable := mine.Role == v1alpha1.RoleDeadLetter && theirs.Role == v1alpha1.RoleDeadLetter
	switch {
	case !shareable && theirs.Role == v1alpha1.RoleDeadLetter:
		return []overlap{{about: about, what: fmt.Sprintf("has queue %q as its dead-letter queue", mine.Name)}}
	case !shareable:
		return []overlap{{about: about, what: fmt.Sprintf("has queue %q as its %s", mine.Name, roleNames[theirs.Role])}}
	case !mine.Arguments.Equal(theirs.Arguments):
		return []overlap{{about: about, what: fmt.Sprintf("has the dead-letter queue %q with other settings (%s; here %s)",
			mine.Name, theirs.Arguments.JSON(), mine.Arguments.JSON())}}
	}
	return nil
}

func exchangeOverlap(mine, theirs topology.Exchange) []overlap {
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: mine.Name}
	switch {
	case isExclusive(mine) && isExclusive(theirs):
		return []overlap{{
			about: about, what: fmt.Sprintf("has the headers exchange %q as its dead-letter exchange, which cannot be shared", mine.Name),
		}}
	case mine.Role == theirs.Role && mine.Type == theirs.Type:
		return nil
	}
	return []overlap{{about: about, what: fmt.Sprintf("has exchange %q as its %s exchange of type %s (here the %s exchange of type %s)",
		mine.Name, roleNames[theirs.Role], theirs.Type, roleNames[mine.Role], mine.Type)}}
}

// isExclusive reports whether an exchange belongs to one ConsumerQueue alone. A dead-letter exchange that routes by reason would copy each
// rejected message to the delay tiers of all who share it.
func isExclusive(exchange topology.Exchange) bool {
	return exchange.Role == v1alpha1.RoleDeadLetter && exchange.Type == v1alpha1.ExchangeHeaders
}

// bindingOverlap: an exchange that leads one key to two dead-letter queues copies each dead letter into both, and one that
// leads a key to two delay tiers has each retry wait in both.
func bindingOverlap(own topology.Topology, mine, theirs topology.Binding) []overlap {
	at := slices.IndexFunc(own.Exchanges, func(e topology.Exchange) bool { return e.Name == mine.Source })
	if at < 0 || !own.Exchanges[at].Declare || !vhost.Overlap(string(own.Exchanges[at].Type), mine.RoutingKey, theirs.RoutingKey) {
		return nil
	}
	exchange := own.Exchanges[at]
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: mine.Source, RoutingKey: mine.RoutingKey}
	what := ""
	switch {
	case mine.Role == v1alpha1.RoleDeadLetter && exchange.Type == v1alpha1.ExchangeFanout:
		what = fmt.Sprintf("leads the fanout exchange %q to dead-letter queue %q (here to %q)",
			mine.Source, theirs.Destination, mine.Destination)
	case mine.Role == v1alpha1.RoleDeadLetter:
		what = fmt.Sprintf("leads key %q of the dead-letter exchange %q to dead-letter queue %q (here key %q to %q)",
			theirs.RoutingKey, mine.Source, theirs.Destination, mine.RoutingKey, mine.Destination)
	case mine.Role == v1alpha1.RoleDelayTier && exchange.Role == v1alpha1.RoleRetry && mine.RoutingKey == theirs.RoutingKey:
		what = fmt.Sprintf("leads key %q of the retry exchange %q to delay tier %q (here to %q)",
			mine.RoutingKey, mine.Source, theirs.Destination, mine.Destination)
	case mine.Role == v1alpha1.RoleDelayTier && exchange.Role == v1alpha1.RoleRetry:
		what = fmt.Sprintf("leads key %q of the retry exchange %q to delay tier %q (here the overlapping key %q to %q)",
			theirs.RoutingKey, mine.Source, theirs.Destination, mine.RoutingKey, mine.Destination)
	default:
		return nil
	}
	return []overlap{{about: about, what: what, theirKey: theirs.RoutingKey}}
}
