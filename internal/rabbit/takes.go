package rabbit

import (
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// takesSettle is how long the broker may take Warren for a consumer after Warren has stopped taking messages.
const takesSettle = 2 * time.Second

// place is a queue of a cluster.
type place struct {
	cluster      vhost.Cluster
	vhost, queue string
}

// takes knows out of which queues Warren takes messages itself, to look at them or to move them, through whichever connection of the
// process. An entry leaves some seconds after the last look or transfer has ended. A restart forgets all: it ends them all, too.
type takes struct {
	mu sync.Mutex
	at map[place]take
}

// take is how many look at a queue, or move messages, and when the last of them ended.
type take struct {
	now   int
	ended time.Time
}

// begin takes note of a look or a transfer until end is called.
func (t *takes) begin(at place) (end func()) {
	t.change(at, +1)
	return func() { t.change(at, -1) }
}

func (t *takes) change(at place, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.at, func(_ place, each take) bool { return each.now == 0 && now.Sub(each.ended) > 2*takesSettle })
	if t.at == nil {
		t.at = map[place]take{}
	}
	t.at[at] = take{t.at[at].now + by, now}
}

// since says whether the broker may have counted Warren among the consumers of a queue since then.
func (t *takes) since(then time.Time, at place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for each, take := range t.at {
		if each.vhost == at.vhost && each.queue == at.queue && each.cluster.MayBe(at.cluster) &&
			(take.now > 0 || take.ended.After(then.Add(-takesSettle))) {
			return true
		}
	}
	return false
}
