package consumer

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// refusedRoutes are the exchanges that the broker refuses messages for: they are missing, or the user may not write to them. Each message
// for one costs a channel, so messages are tried one at a time, less and less often.
type refusedRoutes struct {
	mu    sync.Mutex
	known map[contract.Route]*refusedRoute // without a routing key: all messages for the exchange
}

type refusedRoute struct {
	err       error
	notBefore time.Time // nothing is published before
	retry     backoff
	trying    bool
}

// check returns why nothing is published to a route at present. If it is time to try again, it returns the route that the caller tries.
func (r *refusedRoutes) check(route contract.Route) (due *refusedRoute, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known[contract.Route{Exchange: route.Exchange}]
	if known == nil {
		known = r.known[route]
	}
	switch {
	case known == nil:
		return nil, nil
	case known.trying || time.Now().Before(known.notBefore):
		return nil, known.err
	}
	known.trying = true
	return known, nil
}

// add remembers that the broker closed a channel because of a route.
func (r *refusedRoutes) add(route contract.Route, refusal error) {
	if byTopic := strings.Contains(refusal.Error(), topicReply); !byTopic {
		route.RoutingKey = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[route] != nil {
		return
	}
	if r.known == nil {
		r.known = map[contract.Route]*refusedRoute{}
	}
	maps.DeleteFunc(r.known, func(_ contract.Route, other *refusedRoute) bool { // a program may mistype any number of names
		return !other.trying && time.Since(other.notBefore) > maxDelay
	})
	added := &refusedRoute{err: refusal}
	added.notBefore = time.Now().Add(added.retry.next())
	r.known[route] = added
}

// tried ends a try. The route is forgotten unless the broker closed the channel, or the outcome is unknown.
func (r *refusedRoutes) tried(known *refusedRoute, err error, channelClosed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known.trying = false
	if err == nil || isRefusal(err) && !channelClosed {
		maps.DeleteFunc(r.known, func(_ contract.Route, other *refusedRoute) bool { return other == known })
		return
	}
	if channelClosed {
		known.err = err
	}
	known.notBefore = time.Now().Add(known.retry.next())
}
