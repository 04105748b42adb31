package rabbit

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// LeadsTo reports whether another connection, with this health and to a vhost of the same name, was shown to lead to the vhost of
// this connection: AMQP was let in at the same address, or the management API of this connection shows the match queue of the
// other one.
func (c *Connection) LeadsTo(ctx context.Context, other health.Health) (bool, error) {
	here := c.Health()
	switch {
	case !here.Cluster.MayBe(other.Cluster):
		return false, nil
	case here.Place.Address != "" && here.Place.Address == other.Place.Address:
		return here.Cluster.Is(other.Cluster), nil
	case other.Place.MatchQueue == "":
		return false, nil
	}
	return c.shown.has(ctx, c, here.Cluster, other)
}

// listedAgain is how soon match queues are listed again because one is missing. A connection gets a new match queue with each
// AMQP connection, and a hostile server can make it reconnect again and again.
const listedAgain = 30 * time.Second

// shownQueues are the match queues of all connections that the management API shows in the vhost.
type shownQueues struct {
	places management.Places // of one, which lists

	cluster vhost.Cluster
	listed  map[string]bool
	began   time.Time // the last list
	// neighbours are the other connections whose match queue was listed. They stay while AMQP is down.
	neighbours map[neighbour]bool
}

// neighbour is another connection with one configuration.
type neighbour struct {
	owner string
	since time.Time
}

// has reports whether the match queue of another connection is listed. If that connection has reconnected since the last list,
// the last list counts for some time.
func (s *shownQueues) has(ctx context.Context, c *Connection, cluster vhost.Cluster, other health.Health) (has bool, err error) {
	place, who := other.Place, neighbour{other.Place.Owner, other.Place.Since}
	err = s.places.Hold(ctx, c.errs, func() error {
		if !cluster.Is(s.cluster) {
			s.cluster, s.listed, s.began, s.neighbours = cluster, nil, time.Time{}, map[neighbour]bool{}
		}
		isOld := s.began.Before(place.Since) || time.Since(s.began) > listedAgain
		if !s.listed[place.MatchQueue] && isOld {
			began := time.Now()
			listed, err := c.writeAPI.MatchQueues(ctx)
			if err != nil {
				return err
			}
			s.began, s.listed = began, listed
		}
		switch {
		case s.listed[place.MatchQueue]:
			s.neighbours[who] = true
		case other.Matched && place.MatchedAt.Before(s.began):
			delete(s.neighbours, who)
		}
		has = s.neighbours[who]
		return nil
	})
	return has, err
}
