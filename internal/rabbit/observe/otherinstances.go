package observe

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
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/text"
)

// Two instances of Warren on one vhost, for example from two Kubernetes clusters, do not know each other's ConsumerQueues, and each would
// remove objects that the other needs. Declared objects have no owner, but connections and fences of Warren name theirs. While a connection
// or a fence has an unknown owner, nothing is removed.
const (
	// unnamedOwner stands for the owner of a connection that names none.
	unnamedOwner = "unnamed"

	// surveyAge is how old a survey of the connections may be when a removal is decided. RabbitMQ lists a connection up to 5 s after
	// it was opened.
	surveyAge = 2 * time.Second
	// surveyShare limits surveys to a hundredth of the time, so that twenty hostile brokers together use at most a fifth of a core.
	surveyShare = 100
	// surveyPause is the time between surveys of a vhost that does not change. A new instance changes the vhost, because it declares an
	// exclusive queue.
	surveyPause = 10 * time.Minute
	// listingDelay is how long after a change the broker may first list the connection that made it.
	listingDelay = 10 * time.Second
)

// survey is the last result of listing connections of other instances.
type survey struct {
	listing retry.Slots // held while connections are listed
	at      time.Time   // the last one began
	took    time.Duration
	retryAt time.Time   // when mayRepeat permits another one after a failure
	others  otherOwners // of connections
}

// mayRepeat reports whether another survey would stay within the share of time for surveys.
func (s *survey) mayRepeat() bool {
	return time.Now().After(s.retryAt) && time.Since(s.at) > surveyShare*s.took
}

const (
	// maxNamedOwners is how many owners a message names.
	maxNamedOwners = 16
	// maxOwnerLength is how many bytes of an owner a message shows. Warren's owners are UIDs, which have 36 bytes.
	maxOwnerLength = 64
)

// otherOwners counts connections and fences of other instances by owner. It names the first owners in alphabetical order, so that
// the result does not depend on the order of a listing.
type otherOwners struct {
	named map[string]int
	more  int // connections and fences of owners that are not named
}

func (o *otherOwners) add(owner string) {
	if o.named == nil {
		o.named = map[string]int{}
	}
	o.named[text.Truncate(owner, maxOwnerLength)]++
	if len(o.named) <= maxNamedOwners {
		return
	}
	last := slices.Max(slices.Collect(maps.Keys(o.named)))
	o.more += o.named[last]
	delete(o.named, last)
}

// mayHave reports whether an owner may be among the other owners.
func (o otherOwners) mayHave(owner string) bool {
	return o.more > 0 || o.named[text.Truncate(owner, maxOwnerLength)] > 0
}

func (o otherOwners) clone() otherOwners { return otherOwners{maps.Clone(o.named), o.more} }

// String lists the owners for messages; empty if there are none.
func (o otherOwners) String() string {
	owners := strings.Join(slices.Sorted(maps.Keys(o.named)), ", ")
	if o.more > 0 {
		owners += fmt.Sprintf(", and the owners of %d more connections and fences", o.more)
	}
	return owners
}

// otherInstances looks for other instances on behalf of one connection.
type otherInstances struct {
	Settings
	views *views
	last  survey
}

// CheckUnshared returns ErrShared if another instance works on the vhost.
func (o *otherInstances) CheckUnshared(ctx context.Context) error {
	if _, err := o.surveyConnections(ctx, func(s *survey) bool { return time.Since(s.at) > surveyAge }); err != nil {
		return err
	}
	if others := o.Health.Read().OtherInstances; others != "" {
		return o.Errors.Fail(brokererr.ErrShared, "another instance of Warren works on vhost %q (owner %s)", o.VHost, others)
	}
	return nil
}

// OtherConnections returns a function that reports whether an owner of another instance may be connected to the vhost. It fails if the
// last survey is too old and another one is not permitted yet.
func (o *otherInstances) OtherConnections(ctx context.Context) (mayHave func(owner string) bool, err error) {
	earliest := time.Now().Add(-surveyAge)
	last, err := o.surveyConnections(ctx, func(s *survey) bool { return s.at.Before(earliest) && s.mayRepeat() })
	if err == nil && last.at.Before(earliest) {
		err = o.Errors.Fail(brokererr.ErrUnreachable,
			"the list of connections of vhost %q is too old, and Warren may not list them again yet", o.VHost)
	}
	return last.others.mayHave, err
}

// surveyOften surveys the connections after each refresh that may have found changes, and less often if a survey takes long or
// fails.
func (o *otherInstances) surveyOften(ctx context.Context, changed time.Time) error {
	_, err := o.surveyConnections(ctx, func(s *survey) bool {
		return s.mayRepeat() && (time.Since(s.at) > surveyPause || s.at.Before(changed.Add(listingDelay)))
	})
	return err
}

// surveyConnections lists the connections of the vhost if a survey is due, and returns the last survey. If the user may not list
// connections, or the broker lists none, only fences count.
func (o *otherInstances) surveyConnections(ctx context.Context, due func(*survey) bool) (last survey, err error) {
	if o.KnownOwners == nil {
		return survey{}, nil
	}
	err = o.last.listing.Hold(ctx, o.Errors, func() error {
		if due(&o.last) {
			began := time.Now()
			others, err := o.connectionOwners(ctx)
			if err != nil && !errors.Is(err, brokererr.ErrAccessRefused) {
				o.last.retryAt = time.Now().Add(min(surveyShare*time.Since(began), maxFailurePause))
				return err
			}
			o.last.at, o.last.took, o.last.others = began, time.Since(began), others
		}
		last = o.last
		o.report(o.last.others.clone())
		return nil
	})
	return last, err
}

// connectionOwners counts the connections of other instances to the vhost.
func (o *otherInstances) connectionOwners(ctx context.Context) (others otherOwners, err error) {
	known := o.KnownOwners()
	err = o.WriteAPI.Connections(ctx, func(properties management.LooseObject) {
		if properties["product"] != amqpconn.Product {
			return
		}
		owner, named := properties[amqpconn.OwnerProperty].(string)
		if !named || owner == "" {
			owner = unnamedOwner
		}
		if owner != o.Owner && !known(owner) {
			others.add(owner)
		}
	})
	return others, err
}

// report merges the owners of connections and of fences.
func (o *otherInstances) report(others otherOwners) {
	known := o.KnownOwners()
	o.views.View(func(s *snapshot.Snapshot) {
		for _, policy := range s.Fences {
			if name, _ := fence.ParseName(policy.Name); name.Owner != o.Owner && !known(name.Owner) {
				others.add(name.Owner)
			}
		}
	})
	o.Health.Update(func(s *health.Parts) { s.Health.OtherInstances = others.String() })
}
