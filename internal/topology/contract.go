package topology

import (
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/vhost"
)

// ContractOf returns the contract for the consumers of a ConsumerQueue on a broker of the given version. The error is a *Refusal.
func ContractOf(cq *v1alpha1.ConsumerQueue, virtualHost string, version vhost.Version) (contract.Contract, error) {
	if _, err := Desired(cq, version); err != nil {
		return contract.Contract{}, err
	}
	spec, err := resolve(cq, version)
	if err != nil {
		return contract.Contract{}, &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}
	}
	c := contract.Contract{
		APIVersion: contract.APIVersion, Queue: spec.main, VirtualHost: virtualHost, Strategy: strategyOf(spec),
		MaxAttempts: max(1, int(spec.maxAttempts)), Tiers: contractTiers(spec), Park: parkingRoute(spec), DeadLetterQueue: spec.dlq,
		RejectDeadLetters: rejectDeadLetters(spec), SingleActiveConsumer: spec.queue.SingleActiveConsumer,
	}
	if spec.queue.ConsumerTimeout != "" {
		timeout, err := milliseconds(spec.queue.ConsumerTimeout)
		if err != nil {
			return contract.Contract{}, fmt.Errorf("spec.queue.consumerTimeout: %w", err)
		}
		c.ConsumerTimeout = new(contractDuration(timeout))
	}
	if spec.redelivery != nil {
		c.RedeliveryDelay = &contract.RedeliveryDelay{
			Min: contractDuration(spec.redelivery.min), Max: contractDuration(spec.redelivery.max),
		}
	}
	return c, nil
}

// rejectDeadLetters reports whether a rejected message certainly reaches the dead-letter queue. With at-most-once dead-lettering,
// a full dead-letter queue would lose the message.
func rejectDeadLetters(spec resolved) bool {
	return spec.dlx != nil && spec.atLeastOnce && spec.strategy != v1alpha1.RetryStrategyReject
}

func strategyOf(spec resolved) contract.Strategy {
	if spec.strategy == "" {
		return contract.StrategyNone
	}
	return contract.Strategy(spec.strategy)
}

// contractTiers returns the routes to the delay tiers, through the retry exchange if there is one.
func contractTiers(spec resolved) []contract.Tier {
	tiers := make([]contract.Tier, 0, len(spec.tiers))
	for _, tier := range spec.tiers {
		route := contract.Route{RoutingKey: tier.queue}
		if spec.retryExchange != nil {
			route = contract.Route{Exchange: spec.retryExchange.Name, RoutingKey: tier.key}
		}
		tiers = append(tiers, contract.Tier{Delay: contractDuration(tier.delay), Route: route})
	}
	return tiers
}

// parkingRoute returns the route to the dead-letter queue. Consumers cannot publish to an exchange that routes by the reason of a
// dead letter, so they publish to the queue itself.
func parkingRoute(spec resolved) *contract.Route {
	switch {
	case spec.dlx == nil:
		return nil
	case spec.rejectMode == v1alpha1.RejectByReason:
		return &contract.Route{RoutingKey: spec.dlq}
	}
	return &contract.Route{Exchange: spec.dlx.Name, RoutingKey: spec.dlqKey}
}

func contractDuration(milliseconds int64) contract.Duration {
	return contract.Duration(time.Duration(milliseconds) * time.Millisecond)
}
