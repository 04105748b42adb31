package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Claimant is a ConsumerQueue as far as it matters to others in the same vhost.
type Claimant struct {
	// Name is namespace/name.
	Name    string
	Created time.Time
	// Desired is what it wants; empty where its spec cannot become a topology.
	Desired Topology
	// Owned is what Warren declared or took over for it.
	Owned []v1alpha1.TopologyEntry
}

// Conflict says why a ConsumerQueue cannot have what it wants.
type Conflict struct {
	// Holder is the namespace/name of the ConsumerQueue that has the better right. It is not for messages.
	Holder  string
	Message string
}

// dispute is an object that two claimants cannot both have.
type dispute struct {
	about v1alpha1.TopologyEntry // which of the two has it decides
	what  string
	// theirKey is the other claimant's routing key where two bindings are in dispute: patterns overlap without being equal.
	theirKey string
}

// theirs is what the dispute is about on the other side.
func (d dispute) theirs() v1alpha1.TopologyEntry {
	about := d.about
	about.RoutingKey = d.theirKey
	return about
}

// Contest finds the first conflict that a claimant loses against one of the others; nil if there is none. Exchanges and
// dead-letter queues can be shared, in the same role and with equal settings; main queues and delay tiers cannot. Who
// holds an object just as it wants it keeps it, then who holds it at all; between newcomers it is the oldest, then the
// first by name.
func Contest(own Claimant, others []Claimant) *Conflict {
	for _, other := range others {
		for _, d := range disputes(own.Desired, other.Desired) {
			if own.beats(other, d) {
				continue
			}
			return &Conflict{Holder: other.Name, Message: d.message(own, other)}
		}
	}
	return nil
}

// message says why an object cannot be had. Of a ConsumerQueue in another namespace, which the reader may not know of, it tells
// neither the name nor what it wants.
func (d dispute) message(own, other Claimant) string {
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

func (c Claimant) namespace() string {
	namespace, _, _ := strings.Cut(c.Name, "/")
	return namespace
}

// Uncertain lists the others that a newcomer beats only because they are not known to hold what both want.
func Uncertain(own Claimant, others []Claimant) []string {
	var names []string
	for _, other := range others {
		both := func(d dispute) bool { return own.right(d.about) == newcomer && other.right(d.theirs()) == newcomer }
		if slices.ContainsFunc(disputes(own.Desired, other.Desired), both) {
			names = append(names, other.Name)
		}
	}
	return names
}

// right is how good a claimant's right to an object is.
type right int

const (
	newcomer right = iota
	holder
	holderAsWanted
)

func (c Claimant) beats(other Claimant, about dispute) bool {
	mine, theirs := c.right(about.about), other.right(about.theirs())
	switch {
	case mine != theirs:
		return mine > theirs
	case !c.Created.Equal(other.Created):
		return c.Created.Before(other.Created)
	}
	return c.Name < other.Name
}

func (c Claimant) right(about v1alpha1.TopologyEntry) right {
	at := slices.IndexFunc(c.Owned, func(entry v1alpha1.TopologyEntry) bool { return c.isAbout(entry, about) })
	switch {
	case at < 0:
		return newcomer
	case c.Owned[at].Shape != "" && c.Owned[at].Shape == c.Desired.ShapeOf(c.Owned[at]):
		return holderAsWanted
	}
	return holder
}

// isAbout says whether an entry of a claimant is what a dispute is about: an exchange or queue by its name, a binding by
// its source and key and where this claimant leads it.
func (c Claimant) isAbout(entry, about v1alpha1.TopologyEntry) bool {
	if about.Kind != v1alpha1.KindBinding {
		return SameObject(entry, v1alpha1.TopologyEntry{Kind: about.Kind, Name: about.Name})
	}
	return entry.Kind == about.Kind && entry.Source == about.Source && entry.RoutingKey == about.RoutingKey &&
		slices.ContainsFunc(c.Desired.Bindings, func(b Binding) bool { return SameObject(bindingEntry(b), entry) })
}

// ShapeOf is the shape that a topology wants an object in; empty if it does not want it.
func (t Topology) ShapeOf(entry v1alpha1.TopologyEntry) string {
	for _, exchange := range t.Exchanges {
		if entry.Kind == v1alpha1.KindExchange && exchange.Name == entry.Name {
			return shape(exchange)
		}
	}
	for _, queue := range t.Queues {
		if entry.Kind == v1alpha1.KindQueue && queue.Name == entry.Name {
			return shape(queue)
		}
	}
	for _, binding := range t.Bindings {
		if SameObject(bindingEntry(binding), entry) {
			return shape(binding)
		}
	}
	return ""
}

// disputes lists what two topologies cannot both have.
func disputes(own, other Topology) []dispute {
	var found []dispute
	for _, mine := range own.Queues {
		for _, theirs := range other.Queues {
			if mine.Name == theirs.Name {
				found = append(found, queueDispute(mine, theirs)...)
			}
		}
	}
	for _, mine := range own.Exchanges {
		for _, theirs := range other.Exchanges {
			if mine.Name == theirs.Name && mine.Declare && theirs.Declare {
				found = append(found, exchangeDispute(mine, theirs)...)
			}
		}
	}
	for _, mine := range own.Bindings {
		if mine.Role == v1alpha1.RoleSource {
			continue
		}
		for _, theirs := range other.Bindings {
			if mine.Role == theirs.Role && mine.Source == theirs.Source && mine.Destination != theirs.Destination {
				found = append(found, bindingDispute(own, mine, theirs)...)
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

func queueDispute(mine, theirs Queue) []dispute {
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: mine.Name}
	shareable := mine.Role == v1alpha1.RoleDeadLetter && theirs.Role == v1alpha1.RoleDeadLetter
	switch {
	case !shareable && theirs.Role == v1alpha1.RoleDeadLetter:
		return []dispute{{about: about, what: fmt.Sprintf("has queue %q as its dead-letter queue", mine.Name)}}
	case !shareable:
		return []dispute{{about: about, what: fmt.Sprintf("has queue %q as its %s", mine.Name, roleNames[theirs.Role])}}
	case !mine.Arguments.Equal(theirs.Arguments):
		return []dispute{{about: about, what: fmt.Sprintf("has the dead-letter queue %q with other settings (%s; here %s)",
			mine.Name, theirs.Arguments.JSON(), mine.Arguments.JSON())}}
	}
	return nil
}

func exchangeDispute(mine, theirs Exchange) []dispute {
	about := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: mine.Name}
	if mine.Role == theirs.Role && mine.Type == theirs.Type {
		return nil
	}
	return []dispute{{about: about, what: fmt.Sprintf("has exchange %q as its %s exchange of type %s (here the %s exchange of type %s)",
		mine.Name, roleNames[theirs.Role], theirs.Type, roleNames[mine.Role], mine.Type)}}
}

// bindingDispute: an exchange that leads one key to two dead-letter queues copies each dead letter into both, and one that
// leads a key to two delay tiers has each retry wait in both.
func bindingDispute(own Topology, mine, theirs Binding) []dispute {
	at := slices.IndexFunc(own.Exchanges, func(e Exchange) bool { return e.Name == mine.Source })
	if at < 0 || !own.Exchanges[at].Declare || !overlap(own.Exchanges[at].Type, mine.RoutingKey, theirs.RoutingKey) {
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
	return []dispute{{about: about, what: what, theirKey: theirs.RoutingKey}}
}
