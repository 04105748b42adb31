package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Two operators that both work on a vhost, from two Kubernetes clusters for instance, know nothing of each other's
// ConsumerQueues: each would take away what the other one needs. What Warren declares carries no mark, but its connections and
// its fences do. While there are any of an unknown owner, nothing is removed.
const (
	// unnamedOwner is the owner of a connection that does not say whose it is.
	unnamedOwner = "unnamed"

	// surveyAge is how old a survey of the connections may be when a removal is decided. RabbitMQ lists a connection up to 5 s
	// after it was opened.
	surveyAge = 2 * time.Second
	// surveyShare keeps the time that surveys take to a hundredth: twenty hostile brokers may take a fifth of a core together.
	surveyShare = 100
	// surveyPause is the time between surveys of a vhost that does not change. An operator that connects changes the vhost: for that
	// it declares an exclusive queue.
	surveyPause = 10 * time.Minute
	// listingDelay is how much later than a change the connection is listed that made the change.
	listingDelay = 10 * time.Second
)

// survey is what was last seen of other operators.
type survey struct {
	places management.Places // of one, for whoever reads the connections
	at     time.Time         // the last one began
	took   time.Duration
	others otherOwners // of connections
}

const (
	// maxNamedOwners is how many other owners messages name.
	maxNamedOwners = 16
	// maxOwnerLength is how many bytes of an owner's name messages show. Warren's own are UIDs, which have 36.
	maxOwnerLength = 64
)

// otherOwners counts connections and fences of other operators, by their owners. It names the first owners in alphabetical order, so that
// the result does not depend on the order of a listing.
type otherOwners struct {
	named map[string]int
	more  int // connections and fences of owners that are not named
}

// add counts a connection or a fence.
func (o *otherOwners) add(owner string) {
	if o.named == nil {
		o.named = map[string]int{}
	}
	o.named[brokererr.Truncate(owner, maxOwnerLength)]++
	if len(o.named) <= maxNamedOwners {
		return
	}
	last := slices.Max(slices.Collect(maps.Keys(o.named)))
	o.more += o.named[last]
	delete(o.named, last)
}

// clone returns a copy.
func (o otherOwners) clone() otherOwners { return otherOwners{maps.Clone(o.named), o.more} }

// String is empty if there are none.
func (o otherOwners) String() string {
	text := strings.Join(slices.Sorted(maps.Keys(o.named)), ", ")
	if o.more > 0 {
		text += fmt.Sprintf(", and those of %d more connections and fences", o.more)
	}
	return text
}

// operatorSurvey looks for other operators on behalf of one connection.
type operatorSurvey struct {
	config Config
	errs   brokererr.Errors
	api    *management.Client
	views  *views
	health *healthState
	last   survey
}

// checkUnshared returns ErrShared if another operator works on the vhost.
func (o *operatorSurvey) checkUnshared(ctx context.Context) error {
	if err := o.surveyConnections(ctx, func(s *survey) bool { return time.Since(s.at) > surveyAge }); err != nil {
		return err
	}
	if others := o.health.read().Operators; others != "" {
		return o.errs.Fail(brokererr.ErrShared, "another operator works on vhost %q, as owner %s", o.config.VHost, others)
	}
	return nil
}

// surveyOften looks for other operators with each refresh that may have had news, and less often where that takes long.
func (o *operatorSurvey) surveyOften(ctx context.Context, changed time.Time) error {
	return o.surveyConnections(ctx, func(s *survey) bool {
		age := time.Since(s.at)
		return age > surveyShare*s.took && (age > surveyPause || s.at.Before(changed.Add(listingDelay)))
	})
}

// surveyConnections reads the connections of the vhost if they are due. A user who may not, or a broker that does not show any,
// leaves the fences.
func (o *operatorSurvey) surveyConnections(ctx context.Context, due func(*survey) bool) error {
	if o.config.KnownOwners == nil {
		return nil
	}
	return o.last.places.Hold(ctx, o.errs, func() error {
		if due(&o.last) {
			began := time.Now()
			others, err := o.connectionOwners(ctx)
			if err != nil && !errors.Is(err, brokererr.ErrAccessRefused) {
				return err
			}
			o.last.at, o.last.took, o.last.others = began, time.Since(began), others
		}
		o.report(o.last.others.clone())
		return nil
	})
}

// connectionOwners counts the connections of other operators that the vhost has.
func (o *operatorSurvey) connectionOwners(ctx context.Context) (others otherOwners, err error) {
	known := o.config.KnownOwners()
	err = o.api.Connections(ctx, func(properties management.LooseObject) {
		if properties["product"] != amqpconn.Product {
			return
		}
		owner, named := properties[amqpconn.OwnerProperty].(string)
		if !named || owner == "" {
			owner = unnamedOwner
		}
		if owner != o.config.Owner && !known(owner) {
			others.add(owner)
		}
	})
	return others, err
}

// report puts the owners of connections together with those of fences.
func (o *operatorSurvey) report(others otherOwners) {
	known := o.config.KnownOwners()
	o.views.snapshot(func(s *snapshot.Snapshot) {
		for _, policy := range s.Fences {
			if name, _ := fence.ParseName(policy.Name); name.Owner != o.config.Owner && !known(name.Owner) {
				others.add(name.Owner)
			}
		}
	})
	o.health.update(func(s *healthParts) { s.health.Operators = others.String() })
}
