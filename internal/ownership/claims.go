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

// Claims maps each subject that other ConsumerQueues can dispute to the form in which a ConsumerQueue claims it. Two ConsumerQueues
// conflict over a subject only if they claim it in different forms. Thousands of ConsumerQueues that share an exchange or a
// dead-letter queue with equal settings claim it in one form, and need no comparison. Subjects and forms are stored as marks.
type Claims map[mark]mark

// subject is an object of dispute: an exchange, a queue, or the route of a key through an exchange.
type subject struct {
	kind subjectKind
	name string // of the exchange or queue
	key  string // the routing key, for routesKey
}

func (s subject) mark() mark { return mark(maphash.Comparable(marksSeed, s)) }

// form is how a subject is claimed on a version, combined with the forms on earlier versions.
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
	routesAll     // a fanout exchange routes every message to its bound queues
	routesKey     // a direct exchange routes one key
	routesPattern // a topic exchange routes matching keys; patterns may overlap without being equal
)

// versions are the versions at which topologies change.
var versions = []vhost.Version{vhost.RabbitMQ310, vhost.RabbitMQ312, vhost.RabbitMQ40, vhost.RabbitMQ43}

// claimsOf returns the claims of a ConsumerQueue on all versions of RabbitMQ, and the objects that it needs on any of them.
func claimsOf(cq *v1alpha1.ConsumerQueue) (Claims, vhost.IDs) {
	claims, wants := Claims{}, vhost.IDs{}
	var last map[subject]string
	for _, version := range versions {
		desired, err := topology.Desired(cq, version)
		if err != nil {
			continue // a refused spec claims nothing
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

// formsOf returns the form of each subject that a topology claims. If two topologies have the same form of a subject,
// FindConflict finds no conflict over it. Main queues and delay tiers cannot be shared, so their form contains the
// ConsumerQueue's name.
func formsOf(desired topology.Topology, owner client.ObjectKey) map[subject]string {
	all := map[subject][]string{}
	for _, queue := range desired.Queues {
		form := owner.String()
		if queue.Role == v1alpha1.RoleDeadLetter {
			form = owner.Namespace + " " + string(queue.Role) + " " + queue.Arguments.JSON() // shared within one namespace, or with consent
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
		if about.kind == isExchange && len(form) > 1 { // an exchange in two roles cannot be shared
			form = append(form, owner.String())
		}
		slices.Sort(form)
		forms[about] = strings.Join(form, ", ")
	}
	return forms
}

// routeOf returns the subject that a binding of a retry or dead-letter exchange claims.
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
