package rabbit

import (
	"context"
	"errors"
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
	// surveyShare keeps the time that surveys take to a twentieth.
	surveyShare = 20
)

// survey is what was last seen of other operators.
type survey struct {
	places management.Places // of one, for whoever reads the connections
	at     time.Time         // the last one began
	took   time.Duration
	owners []string // of connections
}

// unshared returns ErrShared if another operator works on the vhost.
func (c *Connection) unshared(ctx context.Context) error {
	if err := c.surveyConnections(ctx, func(s *survey) bool { return time.Since(s.at) > surveyAge }); err != nil {
		return err
	}
	if others := c.Health().Operators; others != "" {
		return c.errs.Fail(brokererr.ErrShared, "another operator works on vhost %q, as owner %s", c.config.VHost, others)
	}
	return nil
}

// surveyOften looks for other operators with each look, and less often where that takes long.
func (c *Connection) surveyOften(ctx context.Context) error {
	return c.surveyConnections(ctx, func(s *survey) bool { return time.Since(s.at) > surveyShare*s.took })
}

// surveyConnections reads the connections of the vhost if they are due. A user who may not, or a broker that does not show any,
// leaves the fences.
func (c *Connection) surveyConnections(ctx context.Context, due func(*survey) bool) error {
	if c.config.Known == nil {
		return nil
	}
	return c.survey.places.Hold(ctx, c.errs, func() error {
		if due(&c.survey) {
			began, owners := time.Now(), []string(nil)
			err := c.writing.Connections(ctx, func(properties management.LooseObject) {
				if properties["product"] != amqpconn.Product {
					return
				}
				owner, named := properties[amqpconn.OwnerProperty].(string)
				if !named || owner == "" {
					owner = unnamedOwner
				}
				owners = append(owners, owner)
			})
			if err != nil && !errors.Is(err, brokererr.ErrAccessRefused) {
				return err
			}
			c.survey.at, c.survey.took, c.survey.owners = began, time.Since(began), owners
		}
		c.reportOperators()
		return nil
	})
}

// reportOperators puts together who was seen by connections and by fences.
func (c *Connection) reportOperators() {
	owners := slices.Clone(c.survey.owners)
	c.store.View(func(s *snapshot.Snapshot) {
		for _, policy := range s.Fences {
			name, _ := fence.ParseName(policy.Name)
			owners = append(owners, name.Owner)
		}
	})
	owners = slices.DeleteFunc(owners, func(owner string) bool { return owner == c.config.Owner || c.config.Known(owner) })
	slices.Sort(owners)
	owners = slices.Compact(owners)
	c.report(func(s *state) { s.health.Operators = strings.Join(owners, ", ") })
}
