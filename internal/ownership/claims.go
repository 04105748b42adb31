package ownership

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Claims say what a ConsumerQueue wants that another one can dispute, and in which form: two ConsumerQueues can only be in
// conflict over a subject that they claim in different forms. Thousands that share an exchange or a dead-letter queue, and
// agree on it, claim it in one form, and need not be compared with each other. Subjects and forms are kept as marks.
type Claims map[mark]mark

// subject is what can be in dispute: an exchange, a queue, or what an exchange does with a routing key.
type subject struct {
	kind subjectKind
	name string // of the exchange or queue
	key  string // the routing key, of routesKey
}

func (s subject) mark() mark { return mark(maphash.Comparable(marksSeed, s)) }

// form is how a subject is claimed on a version, after the forms on the versions before.
type form struct {
	before  mark
	version vhost.Version
	text    string
}

func (f form) mark() mark { return mark(maphash.Comparable(marksSeed, f)) }

type subjectKind int

const (
	isQueue subjectKind = iota
	isExchange
	routesAll     // a fanout exchange leads every message to the queues bound to it
	routesKey     // a direct exchange leads one routing key
	routesPattern // a topic exchange leads the keys that match; patterns may overlap without being equal
)

// versions are those at which topologies change: what a ConsumerQueue wants depends on the version of its broker.
var versions = []vhost.Version{vhost.RabbitMQ310, vhost.RabbitMQ312, vhost.RabbitMQ40, vhost.RabbitMQ43}

// claimsOf are the claims of a ConsumerQueue on whatever version of RabbitMQ, with the objects that it wants on any.
func claimsOf(cq *v1alpha1.ConsumerQueue) (Claims, vhost.IDs) {
	claims, wants := Claims{}, vhost.IDs{}
	var last map[subject]string
	for _, version := range versions {
		desired, err := topology.Desired(cq, version)
		if err != nil {
			continue // what cannot become a topology claims nothing
		}
		forms := formsOf(desired, client.ObjectKeyFromObject(cq))
		if !maps.Equal(forms, last) {
			for about, text := range forms {
				about := about.mark()
				claims[about] = form{claims[about], version, text}.mark()
			}
			last = forms
		}
		desired.AddIDs(wants)
	}
	return claims, wants
}

// formsOf are the forms in which a topology claims its subjects. FindConflict finds no conflict over a subject between two
// topologies with one form of it. Main queues and delay tiers cannot be shared: their form names the ConsumerQueue.
func formsOf(desired topology.Topology, owner client.ObjectKey) map[subject]string {
	all := map[subject][]string{}
	for _, queue := range desired.Queues {
		form := owner.String()
		if queue.Role == v1alpha1.RoleDeadLetter {
			form = owner.Namespace + " " + string(queue.Role) + " " + queue.Arguments.JSON() // shared in one namespace, or with consent
		}
		about := subject{kind: isQueue, name: queue.Name}
		all[about] = append(all[about], form)
	}
	types := map[string]v1alpha1.ExchangeType{}
	for _, exchange := range desired.Exchanges {
		if exchange.Declare {
			about := subject{kind: isExchange, name: exchange.Name}
			form := fmt.Sprintf("%s %s", exchange.Role, exchange.Type)
			switch {
			case isExclusive(exchange):
				form = owner.String() + " " + form
			case exchange.Role != v1alpha1.RoleSource:
				form = owner.Namespace + " " + form
			}
			all[about] = append(all[about], form)
			types[exchange.Name] = exchange.Type
		}
	}
	for _, binding := range desired.Bindings {
		about, disputable := routeOf(binding, types[binding.Source])
		if disputable {
			all[about] = append(all[about], fmt.Sprintf("%s %q %q", binding.Role, binding.RoutingKey, binding.Destination))
		}
	}
	forms := map[subject]string{}
	for about, form := range all {
		if about.kind == isExchange && len(form) > 1 { // in two roles, which nobody can share
			form = append(form, owner.String())
		}
		slices.Sort(form)
		forms[about] = strings.Join(form, ", ")
	}
	return forms
}

// routeOf is what a binding of a retry or dead-letter exchange claims.
func routeOf(binding topology.Binding, exchange v1alpha1.ExchangeType) (about subject, disputable bool) {
	if binding.Role == v1alpha1.RoleSource {
		return subject{}, false
	}
	switch exchange {
	case v1alpha1.ExchangeFanout:
		return subject{kind: routesAll, name: binding.Source}, true
	case v1alpha1.ExchangeDirect:
		return subject{kind: routesKey, name: binding.Source, key: binding.RoutingKey}, true
	case v1alpha1.ExchangeTopic:
		return subject{kind: routesPattern, name: binding.Source}, true
	}
	return subject{}, false
}
