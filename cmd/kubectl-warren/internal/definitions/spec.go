package definitions

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// specOf returns the spec of a main queue and its objects, with all defaults written out; see simplify.
func (r *roles) specOf(main string) v1alpha1.ConsumerQueueSpec {
	queue := r.Queues[main]
	spec := v1alpha1.ConsumerQueueSpec{
		Queue:              &v1alpha1.QueueSpec{Name: v1alpha1.QueueName(main), QueueSettings: settingsOf(queue.Arguments)},
		DeadLetterStrategy: r.deadLetterStrategy(main),
	}
	spec.Queue.SingleActiveConsumer, _ = queue.Arguments[vhost.ArgSingleActiveConsumer].(bool)
	dlx, sends := r.deadLettering(main)
	rejects := sends && slices.ContainsFunc(r.targets(dlx), func(name string) bool { return r.tierOf[name] == main })
	splits := rejects && r.Exchanges[dlx.Exchange].Type == vhost.TypeHeaders
	spec.DeadLetter = r.deadLetterSpec(main)
	spec.Retry = r.retrySpec(main, dlx, rejects, splits)
	if spec.Retry.Strategy == v1alpha1.RetryStrategyRequeue {
		spec.Queue.DeliveryLimit = nil // it follows from maxAttempts
	}
	spec.Bindings = r.sourceBindings(main)
	return spec
}

func (r *roles) deadLetterStrategy(main string) v1alpha1.DeadLetterStrategy {
	for _, name := range append([]string{main}, r.tiers[main]...) {
		if strategy, set := r.Queues[name].Arguments[vhost.ArgDeadLetterStrategy].(string); set && strategy == vhost.StrategyAtLeastOnce {
			return v1alpha1.DeadLetterAtLeastOnce
		}
	}
	return v1alpha1.DeadLetterAtMostOnce
}

func (r *roles) deadLetterSpec(main string) *v1alpha1.DeadLetterSpec {
	found, exists := r.deadLetter[main]
	if !exists {
		return &v1alpha1.DeadLetterSpec{Policy: v1alpha1.DeadLetterPolicyDisabled}
	}
	spec := &v1alpha1.DeadLetterSpec{Queue: &v1alpha1.DeadLetterQueueSpec{
		Name: v1alpha1.QueueName(found.queue), QueueSettings: settingsOf(r.Queues[found.queue].Arguments),
	}}
	kind := v1alpha1.ExchangeType(r.Exchanges[found.exchange].Type)
	spec.Exchange = &v1alpha1.DeadLetterExchange{Name: v1alpha1.ExchangeName(found.exchange), Type: kind}
	if kind == v1alpha1.ExchangeDirect || kind == v1alpha1.ExchangeTopic {
		spec.RoutingKey = new(v1alpha1.RoutingKey(found.key))
	}
	return spec
}

// retrySpec finds the strategy: Reject if the main queue dead-letters to its tier, Publish if it has tiers otherwise, and Requeue
// if the broker counts deliveries and there is no tier.
func (r *roles) retrySpec(main string, dlx vhost.DeadLetterRoute, rejects, splits bool) *v1alpha1.RetrySpec {
	spec := &v1alpha1.RetrySpec{}
	limit, limited := r.Queues[main].Arguments[vhost.ArgDeliveryLimit].(int64)
	_, hasDeadLetter := r.deadLetter[main]
	switch {
	case rejects:
		spec.Strategy = v1alpha1.RetryStrategyReject
	case len(r.tiers[main]) > 0:
		spec.Strategy = v1alpha1.RetryStrategyPublish
	case limited && limit >= 0 && hasDeadLetter:
		spec.Strategy, spec.MaxAttempts = v1alpha1.RetryStrategyRequeue, new(int32(limit+1))
		spec.RedeliveryDelay = redeliveryDelay(r.Queues[main].Arguments)
		return spec
	default:
		return &v1alpha1.RetrySpec{Policy: v1alpha1.RetryPolicyNone}
	}
	exchange := r.retryExchange(main)
	if rejects {
		exchange = dlx.Exchange
	}
	if exchange != "" && !splits {
		spec.Exchange = &v1alpha1.RetryExchange{
			Name: v1alpha1.ExchangeName(exchange), Type: v1alpha1.ExchangeType(r.Exchanges[exchange].Type),
		}
	}
	for _, name := range r.tiers[main] {
		tier := v1alpha1.DelayTier{Delay: durationOf(r.ttl(name)), QueueName: v1alpha1.QueueName(name)}
		if spec.Exchange != nil {
			tier.RoutingKey = new(v1alpha1.RoutingKey(r.deadLetterThrough(exchange, name).key))
		}
		spec.DelayTiers = append(spec.DelayTiers, tier)
	}
	spec.ReturnTo = r.returnRoute(main)
	return spec
}

// retryExchange returns the exchange to which all tiers of a main queue are bound; empty if messages reach them through the
// default exchange.
func (r *roles) retryExchange(main string) string {
	dlx, _ := r.deadLettering(main)
	for _, binding := range r.BindingsTo[r.tiers[main][0]] {
		bound := r.boundTo(binding.Source)
		all := !slices.ContainsFunc(r.tiers[main], func(tier string) bool { return !slices.Contains(bound, tier) })
		if all && binding.Source != dlx.Exchange {
			return binding.Source
		}
	}
	return ""
}

// returnRoute returns nil if the tiers return messages directly to the main queue.
func (r *roles) returnRoute(main string) *v1alpha1.ReturnRoute {
	dlx, _ := r.deadLettering(r.tiers[main][0])
	if dlx.Exchange == "" {
		return nil
	}
	route := &v1alpha1.ReturnRoute{Exchange: v1alpha1.ExchangeName(dlx.Exchange)}
	if dlx.RoutingKey != nil {
		route.RoutingKey = new(v1alpha1.RoutingKey(*dlx.RoutingKey))
	}
	return route
}

func redeliveryDelay(arguments vhost.Arguments) *v1alpha1.RedeliveryDelay {
	shortest, hasMin := arguments[vhost.ArgDelayedRetryMin].(int64)
	longest, hasMax := arguments[vhost.ArgDelayedRetryMax].(int64)
	if !hasMin || !hasMax {
		return nil
	}
	return &v1alpha1.RedeliveryDelay{Min: durationOf(shortest), Max: durationOf(longest)}
}

// sourceBindings returns the bindings of the main queue, one entry per exchange and set of arguments. It sets the type only of
// exchanges that Warren would declare identically.
func (r *roles) sourceBindings(main string) []v1alpha1.SourceBinding {
	var bindings []v1alpha1.SourceBinding
	for _, binding := range r.BindingsTo[main] {
		if binding.Source == "" {
			continue // every queue is bound to the default exchange
		}
		source := v1alpha1.SourceBinding{
			Exchange:  v1alpha1.SourceExchange{Name: v1alpha1.ExchangeName(binding.Source)},
			Arguments: specArguments(binding.Arguments, func(string) bool { return true }),
		}
		if exchange := r.Exchanges[binding.Source]; isDeclarable(binding.Source, exchange) {
			source.Exchange.Type = v1alpha1.ExchangeType(exchange.Type)
		}
		same := slices.IndexFunc(bindings, func(other v1alpha1.SourceBinding) bool {
			return other.Exchange == source.Exchange && maps.Equal(other.Arguments, source.Arguments)
		})
		if same < 0 {
			same = len(bindings)
			bindings = append(bindings, source)
		}
		bindings[same].RoutingKeys = append(bindings[same].RoutingKeys, v1alpha1.RoutingKey(binding.RoutingKey))
	}
	for i, binding := range bindings {
		if len(binding.RoutingKeys) == 1 && binding.RoutingKeys[0] == "" {
			bindings[i].RoutingKeys = nil
		}
	}
	return bindings
}

// isDeclarable reports whether Warren would declare an exchange identically.
func isDeclarable(name string, exchange vhost.Exchange) bool {
	return exchange.Type != "" && exchange.Durable && !exchange.AutoDelete && !exchange.Internal && !strings.HasPrefix(name, "amq.")
}

// settingsOf returns the settings in the arguments of a queue.
func settingsOf(arguments vhost.Arguments) v1alpha1.QueueSettings {
	settings := v1alpha1.QueueSettings{DeliveryLimit: new(intstr.FromString(v1alpha1.DeliveryLimitBrokerDefault))}
	number := func(name string) (int64, bool) {
		value, set := arguments[name].(int64)
		return value, set && value >= 0
	}
	if value, set := number(vhost.ArgMessageTTL); set {
		settings.MessageTTL = durationOf(value)
	}
	if value, set := number(vhost.ArgConsumerTimeout); set {
		settings.ConsumerTimeout = durationOf(value)
	}
	if value, set := number(vhost.ArgMaxLength); set {
		settings.MaxLength = new(v1alpha1.Limit(value))
	}
	if value, set := number(vhost.ArgMaxLengthBytes); set {
		settings.MaxLengthBytes = resource.NewQuantity(value, resource.BinarySI)
	}
	if value, set := number(vhost.ArgInitialGroupSize); set {
		settings.InitialGroupSize = new(int32(value))
	}
	switch value, set := arguments[vhost.ArgDeliveryLimit].(int64); {
	case set && value >= 0:
		settings.DeliveryLimit = new(intstr.FromInt32(int32(value)))
	case set:
		settings.DeliveryLimit = new(intstr.FromString(v1alpha1.DeliveryLimitUnlimited))
	}
	switch arguments[vhost.ArgOverflow] {
	case vhost.OverflowRejectPublish:
		settings.Overflow = v1alpha1.OverflowRejectPublish
	case vhost.OverflowDropHead:
		settings.Overflow = v1alpha1.OverflowDropHead
	}
	switch arguments[vhost.ArgLeaderLocator] {
	case "balanced":
		settings.LeaderLocator = v1alpha1.LeaderLocatorBalanced
	case "client-local":
		settings.LeaderLocator = v1alpha1.LeaderLocatorClientLocal
	}
	settings.Arguments = specArguments(arguments, isFurther)
	return settings
}

// isFurther reports whether an argument of a queue belongs in the field arguments of a spec.
func isFurther(name string) bool {
	known := slices.ContainsFunc(topology.ArgumentTable, func(row topology.Argument) bool { return row.Name == name })
	return strings.HasPrefix(name, "x-") && !known && name != vhost.ArgExpires && name != "x-max-priority"
}

// specArguments returns the arguments that a spec can have: numbers and texts.
func specArguments(arguments vhost.Arguments, takes func(name string) bool) v1alpha1.Arguments {
	var taken v1alpha1.Arguments
	for _, name := range arguments.Keys() {
		var value intstr.IntOrString
		switch given := arguments[name].(type) {
		case string:
			value = intstr.FromString(given)
		case int64:
			value = intstr.FromInt32(int32(given))
			if int64(value.IntVal) != given {
				continue
			}
		default:
			continue
		}
		if !takes(name) {
			continue
		}
		if taken == nil {
			taken = v1alpha1.Arguments{}
		}
		taken[name] = value
	}
	return taken
}

// durationOf formats milliseconds as a duration without zeros: 1h30m.
func durationOf(milliseconds int64) v1alpha1.Duration {
	if milliseconds == 0 {
		return "0ms"
	}
	return v1alpha1.Duration(topology.CompactDelay(milliseconds))
}
