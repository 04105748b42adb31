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

// Candidate is a ConsumerQueue that is compared with others in the same vhost.
type Candidate struct {
	// Name is namespace/name.
	Name    string
	Created time.Time
	// Desired is the topology of the ConsumerQueue; empty if its spec is refused.
	Desired topology.Topology
	// Owned are the objects that Warren declared or adopted for the ConsumerQueue.
	Owned []v1alpha1.TopologyEntry
	// Consents are the objects that the ConsumerQueue shares with other namespaces.
	Consents topology.Consents
	// doubt is why Owned may come from another broker. It matters only between namespaces.
	doubt doubt
}

// doubt is a reason why the objects of a status may be at another broker. A tenant's own broker can report any vhost and cluster ID.
type doubt int

const (
	// certain: the status was recorded at the address of the view, or the view has no address to compare, or the namespace is the same.
	certain doubt = iota
	// recordedElsewhere: the status of another namespace was recorded at another address.
	recordedElsewhere
	// moved: the status of the ConsumerQueue of the view was recorded at another address than its connection has now.
	moved
)

// Conflict describes an object that a ConsumerQueue cannot have, because another ConsumerQueue has the better right.
type Conflict struct {
	// Message is for users. It does not name a ConsumerQueue of another namespace.
	Message string
}

// overlap is an object that two candidates cannot both have.
type overlap struct {
	about v1alpha1.TopologyEntry // the candidate that has this entry wins
	what  string
	// theirKey is the other candidate's routing key if two bindings overlap. Patterns can overlap without being equal.
	theirKey string
	advice   string // how the user can end the conflict
}

// theirs returns the other candidate's side of the overlap.
func (d overlap) theirs() v1alpha1.TopologyEntry {
	about := d.about
	about.RoutingKey = d.theirKey
	return about
}

// FindConflict returns the first conflict that a candidate loses against the others; nil if there is none. ConsumerQueues can share
// exchanges and dead-letter queues in the same role with equal settings, but no main queues and delay tiers. A candidate that holds an
// object in its desired form wins, then a candidate that holds it in any form, then the older one, then the first by name. Between
// namespaces, a candidate that certainly holds the object wins before all of these rules.
func FindConflict(own Candidate, others []Candidate) *Conflict {
	for _, other := range others {
		for _, d := range overlaps(own.Desired, other.Desired) {
			if own.outranks(other, d) {
				continue
			}
			return &Conflict{Message: d.message(own, other)}
		}
	}
	return nil
}

// message describes the conflict to the user. If the other ConsumerQueue is in another namespace, the message contains neither its name nor
// its settings, because the reader may have no access to it.
func (d overlap) message(own, other Candidate) string {
	if other.namespace() == own.namespace() {
		return fmt.Sprintf("ConsumerQueue %s %s; %s", other.Name, d.what, d.advice)
	}
	object := topology.IDOf(d.about).String()
	if d.about.Kind == v1alpha1.KindBinding {
		object = fmt.Sprintf("routing key %q of exchange %q", d.about.RoutingKey, d.about.Source)
	}
	return fmt.Sprintf("a ConsumerQueue in another namespace uses %s exclusively, or with other settings; %s", object, d.advice)
}

func (c Candidate) namespace() string {
	namespace, _, _ := strings.Cut(c.Name, "/")
	return namespace
}

// NeedsLiveRead returns the names of candidates against which own wins only because neither is known to hold the disputed object.
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

// precedence is the strength of a candidate's right to an object.
type precedence int

const (
	newcomer precedence = iota
	holder
	holderAsWanted
)

func (c Candidate) outranks(other Candidate, about overlap) bool {
	mine, theirs := c.precedence(about.about), other.precedence(about.theirs())
	switch {
	case mine >= holder && c.doubt == certain && other.doubt == recordedElsewhere:
		return true
	case theirs >= holder && c.doubt == moved && other.namespace() != c.namespace():
		return false
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

// isAbout reports whether an entry of a candidate is the object of an overlap. It compares an exchange or queue by name, and a
// binding by source, key and this candidate's destination.
func (c Candidate) isAbout(entry, about v1alpha1.TopologyEntry) bool {
	if about.Kind != v1alpha1.KindBinding {
		return entry.Kind == about.Kind && entry.Name == about.Name
	}
	return entry.Kind == about.Kind && entry.Source == about.Source && entry.RoutingKey == about.RoutingKey &&
		slices.ContainsFunc(c.Desired.Bindings, func(b topology.Binding) bool { return b.ID() == topology.IDOf(entry) })
}

// overlaps returns the objects that two topologies cannot both have.
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

var roleNames = map[v1alpha1.Role]string{
	v1alpha1.RoleMain: "main queue", v1alpha1.RoleDelayTier: "delay tier", v1alpha1.RoleDeadLetter: "dead-letter",
	v1alpha1.RoleRetry: "retry", v1alpha1.RoleSource: "source",
}

// The advice for objects that cannot be shared, and for objects that can.
const (
	renameOne      = "choose another name in one of the two ConsumerQueues"
	renameOrShare  = renameOne + ", or use the same settings to share it"
	rerouteOne     = "choose another exchange or routing key in one of the two ConsumerQueues"
	rerouteOrShare = rerouteOne + ", or use the same dead-letter queue"
)

func queueOverlap(mine, theirs topology.Queue) []overlap {
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: mine.Name}
	shareable := mine.Role == v1alpha1.RoleDeadLetter && theirs.Role == v1alpha1.RoleDeadLetter
	switch {
	case !shareable && theirs.Role == v1alpha1.RoleDeadLetter:
		return []overlap{{about: about, advice: renameOne, what: fmt.Sprintf("has queue %q as its dead-letter queue", mine.Name)}}
	case !shareable:
		return []overlap{{about: about, advice: renameOne, what: fmt.Sprintf("has queue %q as its %s", mine.Name, roleNames[theirs.Role])}}
	case !mine.Arguments.Equal(theirs.Arguments):
		return []overlap{{about: about, advice: renameOrShare, what: fmt.Sprintf(
			"has the dead-letter queue %q with other settings (%s; here %s)", mine.Name, theirs.Arguments.JSON(), mine.Arguments.JSON())}}
	}
	return nil
}

func exchangeOverlap(mine, theirs topology.Exchange) []overlap {
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: mine.Name}
	switch {
	case isExclusive(mine) && isExclusive(theirs):
		return []overlap{{
			about: about, advice: renameOne,
			what: fmt.Sprintf("has the headers exchange %q as its dead-letter exchange, which cannot be shared", mine.Name),
		}}
	case mine.Role == theirs.Role && mine.Type == theirs.Type:
		return nil
	}
	advice := renameOrShare
	if mine.Role != theirs.Role {
		advice = renameOne
	}
	return []overlap{{about: about, advice: advice, what: fmt.Sprintf(
		"has exchange %q as its %s exchange of type %s (here the %s exchange of type %s)",
		mine.Name, roleNames[theirs.Role], theirs.Type, roleNames[mine.Role], mine.Type)}}
}

// isExclusive reports whether an exchange cannot be shared. A dead-letter exchange that routes by reason would copy each rejected
// message to the delay tiers of all ConsumerQueues that name it.
func isExclusive(exchange topology.Exchange) bool {
	return exchange.Role == v1alpha1.RoleDeadLetter && exchange.Type == v1alpha1.ExchangeHeaders
}

// bindingOverlap returns the overlap of two bindings. If an exchange routes one key to two dead-letter queues, both receive a
// copy of each dead letter. If it routes one key to two delay tiers, each retry waits in both.
func bindingOverlap(own topology.Topology, mine, theirs topology.Binding) []overlap {
	at := slices.IndexFunc(own.Exchanges, func(e topology.Exchange) bool { return e.Name == mine.Source })
	if at < 0 || !own.Exchanges[at].Declare || !vhost.Overlap(string(own.Exchanges[at].Type), mine.RoutingKey, theirs.RoutingKey) {
		return nil
	}
	exchange := own.Exchanges[at]
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: mine.Source, RoutingKey: mine.RoutingKey}
	what, advice := "", rerouteOne
	if mine.Role == v1alpha1.RoleDeadLetter {
		advice = rerouteOrShare
	}
	switch {
	case mine.Role == v1alpha1.RoleDeadLetter && exchange.Type == v1alpha1.ExchangeFanout:
		what = fmt.Sprintf("routes the fanout exchange %q to dead-letter queue %q (here to %q)",
			mine.Source, theirs.Destination, mine.Destination)
	case mine.Role == v1alpha1.RoleDeadLetter:
		what = fmt.Sprintf("routes key %q of the dead-letter exchange %q to dead-letter queue %q (here key %q to %q)",
			theirs.RoutingKey, mine.Source, theirs.Destination, mine.RoutingKey, mine.Destination)
	case mine.Role == v1alpha1.RoleDelayTier && exchange.Role == v1alpha1.RoleRetry && mine.RoutingKey == theirs.RoutingKey:
		what = fmt.Sprintf("routes key %q of the retry exchange %q to delay tier %q (here to %q)",
			mine.RoutingKey, mine.Source, theirs.Destination, mine.Destination)
	case mine.Role == v1alpha1.RoleDelayTier && exchange.Role == v1alpha1.RoleRetry:
		what = fmt.Sprintf("routes key %q of the retry exchange %q to delay tier %q (here the overlapping key %q to %q)",
			theirs.RoutingKey, mine.Source, theirs.Destination, mine.RoutingKey, mine.Destination)
	default:
		return nil
	}
	return []overlap{{about: about, advice: advice, what: what, theirKey: theirs.RoutingKey}}
}
