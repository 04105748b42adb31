package consumer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

var errUnanswered = errors.New("the broker has not answered yet whether it accepts copies of failed messages")

// checkPermissions checks once for each contract that the broker accepts copies. It repeats the check every 30 s while an
// exchange does not exist or the user may not write to it, and sooner while the broker does not answer.
func (c *Consumer) checkPermissions(ctx context.Context) {
	var checked *contract.Contract
	var refusals map[string]error // by exchange
	retry := backoff{}
	again := time.NewTimer(contractInterval)
	defer again.Stop()
	again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.permissionChecks:
		case <-again.C:
		}
		current := c.contract.Load()
		if current == checked {
			continue
		}
		former, unanswered := refusals, error(nil)
		refusals = map[string]error{}
		for exchange, route := range routesOf(*current, c.settings.Load().breakAfter > 0) {
			refusal, err := c.conn.copies.check(ctx, route)
			if err != nil {
				refusal, unanswered = former[exchange], err
			}
			if refusal != nil {
				refusals[exchange] = refusal
			}
		}
		c.recordForbidden(current, refusals, unanswered)
		switch {
		case unanswered != nil:
			again.Reset(retry.next())
		case len(refusals) > 0:
			again.Reset(contractInterval)
		default:
			checked = current
			retry.reset()
		}
	}
}

// recordForbidden records the exchanges for which the broker refuses messages, and logs the new ones. unanswered is why the check has no
// answer for an exchange, or nil.
func (c *Consumer) recordForbidden(current *contract.Contract, refusals map[string]error, unanswered error) {
	known := c.status.setForbidden(refusals, unanswered)
	for _, exchange := range slices.Sorted(maps.Keys(refusals)) {
		if known[exchange] == nil {
			c.settings.Load().logger.Warn("The broker refuses copies of failed messages; "+
				"check that the exchange exists and grant the user write permission on it",
				"queue", current.Queue, "exchange", exchange, "error", refusals[exchange])
		}
	}
}

// routesOf returns one route for each exchange to which consumers of a contract usually publish. Under Requeue, only messages
// that crash the process are parked. Under Reject, only deferred messages are published to the tier, which a breaker does.
func routesOf(c contract.Contract, breaks bool) map[string]contract.Route {
	routes := map[string]contract.Route{}
	if c.Strategy == contract.StrategyPublish || breaks {
		for _, tier := range c.Tiers {
			routes[tier.Exchange] = tier.Route
		}
	}
	if c.Park != nil && (c.Strategy != contract.StrategyRequeue || !c.RejectDeadLetters) {
		routes[c.Park.Exchange] = *c.Park
	}
	return routes
}
