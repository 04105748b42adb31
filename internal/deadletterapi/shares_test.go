package deadletterapi

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A namespace gets a second slot only while half of all slots are free, so that two namespaces cannot occupy all.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares(4, 2)
	ends := map[string]func(){}
	for _, step := range []struct {
		namespace string
		granted   bool
	}{
		{"a", true}, {"a", true}, {"a", false}, // its limit
		{"b", true}, {"b", false}, // no second slot from the second half
		{"c", true}, {"d", false}, // no slot is left
	} {
		end, _ := s.take(step.namespace)
		topologytest.Equal(t, "granted to "+step.namespace, step.granted, end != nil)
		if end != nil {
			ends[step.namespace] = end
		}
	}
	ends["c"]()
	end, has := s.take("a")
	topologytest.Equal(t, "the free slot is not for a namespace that has two", true, end == nil && has == 2)
	end, _ = s.take("d")
	topologytest.Equal(t, "the free slot is for a namespace that has none", true, end != nil)
	topologytest.Equal(t, "what is kept of namespaces", map[string]int{"a": 2, "b": 1, "d": 1}, s.taken)
}

// Clients that do not receive their responses use only the slots of their namespace. Lists have slots of their own, so no list waits
// for slow clients of messages, and no browse for slow clients of lists.
func TestAnswersAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	w.broker.SetDeadLetters("orders.dlq", rejected("1"))
	reads := make(chan struct{})
	var clients sync.WaitGroup
	occupy := func(paths ...string) {
		for _, path := range paths {
			lazy := lazyClient{httptest.NewRecorder(), reads, make(chan struct{}, 1)}
			clients.Go(func() { w.handler.routes().ServeHTTP(lazy, httptest.NewRequest(http.MethodGet, path, http.NoBody)) })
			<-lazy.begun
		}
	}
	status := func(path string) int { return w.get(path, "", &map[string]any{}).StatusCode }
	tooMany := func(of string) refusal {
		return refusal{429, metav1.StatusReasonTooManyRequests, "too many requests " + of + " are under way; try again", "1"}
	}
	const messages = ofShop + "/orders/messages"
	occupy(ofShop, ofShop)
	topologytest.Equal(t, "messages beside lists", http.StatusOK, status(messages))
	occupy(messages, ofShop+"/orders/export")
	topologytest.Equal(t, "messages", tooMany(`of namespace "shop" that wait for answers`), w.refusal(messages))
	topologytest.Equal(t, "list", tooMany(`of namespace "shop" that list queues`), w.refusal(ofShop))
	topologytest.Equal(t, "list beside messages, of another namespace", http.StatusOK, status(ofTill))
	occupy(allQueues, allQueues)
	topologytest.Equal(t, "list of all", tooMany("for all namespaces that list queues"), w.refusal(allQueues))
	topologytest.Equal(t, "list beside lists of all", http.StatusOK, status(ofTill))
	end, _ := w.handler.answers.take("till")
	topologytest.Equal(t, "slot for messages of another namespace", true, end != nil)
	close(reads)
	clients.Wait()
	for _, path := range []string{messages, ofShop, allQueues} {
		topologytest.Equal(t, path+" after the slow clients", http.StatusOK, status(path))
	}
}
