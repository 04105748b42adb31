package deadletterapi

import (
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

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
			list := p.list("orders.dlq", lookedAt{ready: len(test.bodies)})
			topologytest.Equal(t, "items", test.items, len(list.Items))
			topologytest.Equal(t, "next position", test.next, list.NextPosition)
			topologytest.Equal(t, "queue", "orders.dlq", list.Queue)
		})
	}
}
