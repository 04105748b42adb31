package brokermatch

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/vhost"
)

// listedAgain is the shortest time between two lists of match queues because one is missing. A connection gets a new match queue
// with each AMQP connection, and a hostile server can make it reconnect often.
const listedAgain = 30 * time.Second

// PlaceChecker checks which other connections lead to the same vhost as one connection. It records the match queues of all connections
// that the management API shows in the vhost.
type PlaceChecker struct {
	errs    brokererr.Errors
	api     *management.Client
	listing retry.Slots // held while match queues are listed

	cluster vhost.Cluster
	listed  map[string]bool
	began   time.Time // the last list
	// found are the other connections whose match queue was listed. They stay while AMQP is down.
	found map[otherConnection]bool
}

// NewPlaceChecker returns a PlaceChecker of the connection with this client of the management API.
func NewPlaceChecker(errs brokererr.Errors, api *management.Client) *PlaceChecker {
	return &PlaceChecker{errs: errs, api: api, listing: retry.NewSlots(1)}
}

// LeadsTo reports whether another connection to a vhost of the same name leads to the same vhost as this connection: AMQP opened it
// at the same address, or the management API of this connection shows the match queue of the other one.
func (c *PlaceChecker) LeadsTo(ctx context.Context, here, other health.Health) (bool, error) {
	switch {
	case !here.Cluster.MayBe(other.Cluster):
		return false, nil
	case here.Place.Address != "" && here.Place.Address == other.Place.Address:
		return here.Cluster.Is(other.Cluster), nil
	case other.Place.MatchQueue == "":
		return false, nil
	}
	return c.has(ctx, here.Cluster, other)
}

// otherConnection is another connection with one configuration.
type otherConnection struct {
	owner string
	since time.Time
}

// has reports whether the match queue of another connection is listed. If that connection has reconnected since the last list,
// the last list counts for some time.
func (c *PlaceChecker) has(ctx context.Context, cluster vhost.Cluster, other health.Health) (has bool, err error) {
	place, who := other.Place, otherConnection{other.Place.Owner, other.Place.Since}
	err = c.listing.Hold(ctx, c.errs, func() error {
		if !cluster.Is(c.cluster) {
			c.cluster, c.listed, c.began, c.found = cluster, nil, time.Time{}, map[otherConnection]bool{}
		}
		isOld := c.began.Before(place.Since) || time.Since(c.began) > listedAgain
		if !c.listed[place.MatchQueue] && isOld {
			began := time.Now()
			listed, err := c.api.MatchQueues(ctx)
			if err != nil {
				return err
			}
			c.began, c.listed = began, listed
		}
		switch {
		case c.listed[place.MatchQueue]:
			c.found[who] = true
		case other.Matched && place.MatchedAt.Before(c.began):
			delete(c.found, who)
		}
		has = c.found[who]
		return nil
	})
	return has, err
}
