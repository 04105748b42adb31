package deadletterapi

import (
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A distinct page shows one message of each ID, and ends when it contains all requested IDs.
func TestDistinctPage(t *testing.T) {
	t.Parallel()
	first, second := rejected("a"), rejected("b")
	selector, err := deadletter.Compile(v1alpha1.DeadLetterSelector{IDs: []string{deadletter.Fingerprint(&first), deadletter.Fingerprint(&second)}})
	topologytest.Equal(t, "error", nil, err)
	p := page{query: query{limit: 10, distinct: true, selector: selector}, redact: defaults, room: 100_000}
	topologytest.Equal(t, "more after the first", true, p.add(0, orders.Read(&first)))
	topologytest.Equal(t, "more after one that is alike", true, p.add(1, orders.Read(&first)))
	topologytest.Equal(t, "more after the last", false, p.add(2, orders.Read(&second)))
	topologytest.Equal(t, "items", 2, len(p.items))
}

func TestPage(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		bodies    []string
		limit     int
		bodyLimit int
		items     int
		next      *int64
	}{
		"no messages":                {limit: 3},
		"fewer than the limit":       {bodies: []string{"a", "b"}, limit: 3, items: 2},
		"as many as the limit":       {bodies: []string{"a", "b", "c"}, limit: 3, items: 3},
		"more than the limit":        {bodies: []string{"a", "b", "c", "d"}, limit: 3, items: 3, next: new(int64(3))},
		"more than an answer takes":  {bodies: []string{large, large, large, large}, limit: 10, bodyLimit: 10_000, items: 3, next: new(int64(3))},
		"cut, so that they all fit":  {bodies: []string{large, large, large, large}, limit: 10, bodyLimit: 10, items: 4},
		"one that is larger than it": {bodies: []string{strings.Repeat(large, 4), "a"}, limit: 10, bodyLimit: 100_000, items: 1, next: new(int64(1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := page{query: query{limit: test.limit, bodyLimit: test.bodyLimit}, redact: defaults, room: 16_000 + 3*1000}
			for i, body := range test.bodies {
				message := rejected(body)
				if !p.add(i, orders.Read(&message)) {
					break
				}
			}
			list := p.list("orders.dlq", browsed{ready: len(test.bodies)})
			topologytest.Equal(t, "items", test.items, len(list.Items))
			topologytest.Equal(t, "next position", test.next, list.NextPosition)
			topologytest.Equal(t, "queue", "orders.dlq", list.Queue)
		})
	}
}
