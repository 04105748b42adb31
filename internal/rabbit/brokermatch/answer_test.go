package brokermatch

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// A neighbour was found, and the last list does not show its match queue. Its claims count until it is surely elsewhere: it has matched a
// broker before the list began, so the list would show a queue of this vhost.
func TestAFoundNeighbour(t *testing.T) {
	t.Parallel()
	began := time.Now()
	here := vhost.Cluster{ID: "sha256:here", Name: "rabbit@a"}
	for name, test := range map[string]struct {
		matched   bool
		matchedAt time.Time
		want      bool
	}{
		"its AMQP connection is down":         {false, began.Add(-time.Minute), true},
		"it has matched since the list began": {true, began.Add(time.Millisecond), true},
		"it matched before the list began":    {true, began.Add(-time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := health.Place{Owner: "till", Since: began.Add(-time.Hour), MatchQueue: "warren-link-1", MatchedAt: test.matchedAt}
			who := otherConnection{place.Owner, place.Since}
			c := &PlaceChecker{
				cluster: here, last: &list{began: began, ended: began.Add(time.Millisecond)}, found: map[otherConnection]bool{who: true},
			}
			has, pending, err := c.answer(here, health.Health{Matched: test.matched, Place: place})
			topologytest.Equal(t, "leads here", test.want, has)
			topologytest.Equal(t, "still found", test.want, c.found[who])
			topologytest.Equal(t, "waits for a list", false, pending != nil)
			topologytest.Equal(t, "error", nil, err)
		})
	}
}
