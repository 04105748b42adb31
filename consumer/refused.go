package consumer

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// refusedRoutes records the exchanges for which the broker refuses messages, because they do not exist or the user may not write
// to them. A refusal closes the channel, so such messages are tried one at a time with increasing delay.
type refusedRoutes struct {
	mu    sync.Mutex
	known map[contract.Route]*refusedRoute // a route without a routing key stands for the whole exchange
}

type refusedRoute struct {
	err       error
	notBefore time.Time // when the next message may be tried
	retry     backoff
	trying    bool
}

// check returns the error of a refused route until the next try is due. When a try is due, it returns the route, and the caller
// must call tried.
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

// add records that the broker closed a channel because of a route.
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
	maps.DeleteFunc(r.known, func(_ contract.Route, other *refusedRoute) bool { // limits the map if a program publishes to many wrong names
		return !other.trying && time.Since(other.notBefore) > maxDelay
	})
	added := &refusedRoute{err: refusal}
	added.notBefore = time.Now().Add(added.retry.next())
	r.known[route] = added
}

// tried records the result of a try. The route is removed unless the broker closed the channel or the outcome is unknown.
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
