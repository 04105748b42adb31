// Package specgen generates valid ConsumerQueues for property-based tests.
package specgen

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// ConsumerQueue generates valid ConsumerQueues with any combination of fields and unusual names. RabbitMQ 4.3 accepts all of
// them; older versions may refuse some.
func ConsumerQueue() *rapid.Generator[*v1alpha1.ConsumerQueue] {
	return rapid.Custom(func(t *rapid.T) *v1alpha1.ConsumerQueue {
		cq := &v1alpha1.ConsumerQueue{}
		// The prefix is unique, because queue names must differ, and exchange names, too.
		cq.Name = rapid.StringMatching(`m([-a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name")
		cq.Namespace = "default"
		cq.Spec.DeadLetterStrategy = oneOf(t, "deadLetterStrategy", "", v1alpha1.DeadLetterAtLeastOnce, v1alpha1.DeadLetterAtMostOnce)
		cq.Spec.Bindings = rapid.SliceOfN(rapid.Custom(sourceBinding), 0, 4).Draw(t, "bindings")
		oneType(cq.Spec.Bindings)
		if yes(t, "has retry") {
			cq.Spec.Retry = retry(t)
		}
		if yes(t, "has deadLetter") {
			cq.Spec.DeadLetter = deadLetter(t, cq.Spec.Retry)
		}
		if yes(t, "has queue") {
			cq.Spec.Queue = &v1alpha1.QueueSpec{QueueSettings: settings(t)}
			if yes(t, "has queue.name") {
				cq.Spec.Queue.Name = v1alpha1.QueueName(name(t, "q"))
			}
			cq.Spec.Queue.SingleActiveConsumer = yes(t, "singleActiveConsumer")
			reconcile(&cq.Spec)
		}
		return cq
	})
}

// reconcile removes settings of the main queue that validation refuses in combination with the rest of the spec.
func reconcile(spec *v1alpha1.ConsumerQueueSpec) {
	atMostOnce := spec.DeadLetterStrategy == v1alpha1.DeadLetterAtMostOnce
	disabled := spec.DeadLetter != nil && spec.DeadLetter.Policy == v1alpha1.DeadLetterPolicyDisabled
	strategy := v1alpha1.RetryStrategy("")
	if spec.Retry != nil {
		strategy = spec.Retry.Strategy
	}
	if strategy == v1alpha1.RetryStrategyRequeue {
		spec.Queue.DeliveryLimit = nil
	}
	exchange := v1alpha1.ExchangeType("")
	if spec.DeadLetter != nil && spec.DeadLetter.Exchange != nil {
		exchange = spec.DeadLetter.Exchange.Type
	}
	straight := disabled || exchange != "" && exchange != v1alpha1.ExchangeHeaders
	if strategy == v1alpha1.RetryStrategyReject && (straight || spec.Retry.Exchange != nil) {
		spec.Queue.MessageTTL = ""
		spec.Queue.DeliveryLimit = nil
		if atMostOnce {
			spec.Queue.MaxLength, spec.Queue.MaxLengthBytes = nil, nil
		}
	}
	deadLetters := !disabled || strategy == v1alpha1.RetryStrategyReject
	if deadLetters && !atMostOnce && spec.Queue.Overflow == v1alpha1.OverflowDropHead {
		spec.Queue.Overflow = ""
	}
}

func settings(t *rapid.T) v1alpha1.QueueSettings {
	limit := rapid.Custom(func(t *rapid.T) intstr.IntOrString {
		word := oneOf(t, "word", "", v1alpha1.DeliveryLimitUnlimited, v1alpha1.DeliveryLimitBrokerDefault)
		if word != "" {
			return intstr.FromString(word)
		}
		return intstr.FromInt32(rapid.Int32Min(0).Draw(t, "number"))
	})
	quantity := rapid.Custom(func(t *rapid.T) resource.Quantity {
		return resource.MustParse(oneOf(t, "quantity", "0", "1", "500M", "1Gi", "5000000000", "1e3", "999999999999999999"))
	})
	return v1alpha1.QueueSettings{
		MessageTTL:       maybeDuration(t, "messageTTL"),
		DeliveryLimit:    maybe(t, "deliveryLimit", limit),
		MaxLength:        (*v1alpha1.Limit)(maybe(t, "maxLength", rapid.Int64Range(0, 1<<31-1))),
		MaxLengthBytes:   maybe(t, "maxLengthBytes", quantity),
		Overflow:         oneOf(t, "overflow", "", v1alpha1.OverflowDropHead, v1alpha1.OverflowRejectPublish),
		InitialGroupSize: maybe(t, "initialGroupSize", rapid.Int32Min(1)),
		LeaderLocator:    oneOf(t, "leaderLocator", "", v1alpha1.LeaderLocatorBalanced, v1alpha1.LeaderLocatorClientLocal),
		ConsumerTimeout:  maybeDuration(t, "consumerTimeout"),
		Arguments:        arguments(t, "x-own-"),
	}
}

func sourceBinding(t *rapid.T) v1alpha1.SourceBinding {
	kinds := []v1alpha1.ExchangeType{"", v1alpha1.ExchangeDirect, v1alpha1.ExchangeFanout, v1alpha1.ExchangeTopic, v1alpha1.ExchangeHeaders}
	keys := rapid.SliceOfN(rapid.Custom(key), 0, 3)
	return v1alpha1.SourceBinding{
		Exchange: v1alpha1.SourceExchange{
			Name: v1alpha1.ExchangeName(oneOf(t, "number", "s1", "s2 ü", "s/3%")),
			Type: oneOf(t, "type", kinds...),
		},
		RoutingKeys: keys.Draw(t, "routingKeys"),
		Arguments:   arguments(t, ""),
	}
}

// oneType gives bindings to the same exchange the same type.
func oneType(bindings []v1alpha1.SourceBinding) {
	types := map[v1alpha1.ExchangeName]v1alpha1.ExchangeType{}
	for i := range bindings {
		exchange := &bindings[i].Exchange
		if exchange.Type != "" && types[exchange.Name] == "" {
			types[exchange.Name] = exchange.Type
		}
		if exchange.Type != "" {
			exchange.Type = types[exchange.Name]
		}
	}
}

func retry(t *rapid.T) *v1alpha1.RetrySpec {
	if yes(t, "no retry") {
		return &v1alpha1.RetrySpec{Policy: v1alpha1.RetryPolicyNone}
	}
	spec := &v1alpha1.RetrySpec{
		Policy:      oneOf(t, "policy", "", v1alpha1.RetryPolicyMaxAttempts),
		MaxAttempts: maybe(t, "maxAttempts", rapid.Int32Min(1)),
		Strategy:    oneOf(t, "strategy", "", v1alpha1.RetryStrategyPublish, v1alpha1.RetryStrategyReject, v1alpha1.RetryStrategyRequeue),
	}
	if spec.Strategy == v1alpha1.RetryStrategyRequeue {
		if yes(t, "has redeliveryDelay") {
			ends := delays(t, 2, 2)
			spec.RedeliveryDelay = &v1alpha1.RedeliveryDelay{Min: ends[0], Max: ends[1]}
		}
		return spec
	}
	if yes(t, "has exchange") {
		spec.Exchange = &v1alpha1.RetryExchange{
			Name: v1alpha1.ExchangeName(name(t, "r")),
			Type: oneOf(t, "type", "", v1alpha1.ExchangeDirect, v1alpha1.ExchangeTopic),
		}
	}
	if yes(t, "has returnTo") {
		spec.ReturnTo = &v1alpha1.ReturnRoute{Exchange: v1alpha1.ExchangeName(name(t, "back"))}
		if yes(t, "has routingKey") {
			back := key(t)
			spec.ReturnTo.RoutingKey = &back
		}
	}
	if yes(t, "has delayTiers") {
		maxCount := 16
		if spec.Strategy == v1alpha1.RetryStrategyReject {
			maxCount = 1
		}
		spec.DelayTiers = tiers(t, maxCount, spec.Exchange != nil)
	}
	return spec
}

func tiers(t *rapid.T, maxCount int, keyed bool) []v1alpha1.DelayTier {
	waits := delays(t, 1, maxCount)
	all := make([]v1alpha1.DelayTier, 0, len(waits))
	for i, delay := range waits {
		tier := v1alpha1.DelayTier{Delay: delay}
		if yes(t, "has queueName") {
			tier.QueueName = v1alpha1.QueueName(name(t, fmt.Sprintf("t%d.", i)))
		}
		if keyed && yes(t, "has routingKey") {
			own := v1alpha1.RoutingKey(fmt.Sprintf("k%d.", i)) + key(t)
			tier.RoutingKey = &own
		}
		all = append(all, tier)
	}
	return all
}

func deadLetter(t *rapid.T, retry *v1alpha1.RetrySpec) *v1alpha1.DeadLetterSpec {
	if retry == nil {
		retry = &v1alpha1.RetrySpec{}
	}
	if retry.Strategy != v1alpha1.RetryStrategyRequeue && yes(t, "disabled") {
		return &v1alpha1.DeadLetterSpec{Policy: v1alpha1.DeadLetterPolicyDisabled}
	}
	spec := &v1alpha1.DeadLetterSpec{Policy: oneOf(t, "policy", "", v1alpha1.DeadLetterPolicyEnabled)}
	if yes(t, "has exchange") {
		types := []v1alpha1.ExchangeType{"", v1alpha1.ExchangeFanout, v1alpha1.ExchangeDirect, v1alpha1.ExchangeTopic}
		if retry.Strategy == v1alpha1.RetryStrategyReject && retry.Exchange == nil {
			types = append(types, v1alpha1.ExchangeHeaders)
		}
		spec.Exchange = &v1alpha1.DeadLetterExchange{Type: oneOf(t, "type", types...)}
		if yes(t, "has name") {
			spec.Exchange.Name = v1alpha1.ExchangeName(name(t, "d"))
		}
		keyed := spec.Exchange.Type == v1alpha1.ExchangeDirect || spec.Exchange.Type == v1alpha1.ExchangeTopic
		if keyed && yes(t, "has routingKey") {
			own := key(t)
			spec.RoutingKey = &own
		}
	}
	if yes(t, "has queue") {
		spec.Queue = &v1alpha1.DeadLetterQueueSpec{QueueSettings: settings(t)}
		if yes(t, "has name") {
			spec.Queue.Name = v1alpha1.QueueName(name(t, "p"))
		}
	}
	return spec
}

// delays generates different delays in ascending order.
func delays(t *rapid.T, minCount, maxCount int) []v1alpha1.Duration {
	lengths := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<32-1), minCount, maxCount, rapid.ID).Draw(t, "delays")
	slices.Sort(lengths)
	all := make([]v1alpha1.Duration, 0, len(lengths))
	for _, length := range lengths {
		all = append(all, written(t, length))
	}
	return all
}

func maybeDuration(t *rapid.T, label string) v1alpha1.Duration {
	if yes(t, "has "+label) {
		return written(t, rapid.Int64Range(1, 1<<32-1).Draw(t, label))
	}
	return ""
}

// written formats milliseconds in one of the formats that users use.
func written(t *rapid.T, milliseconds int64) v1alpha1.Duration {
	text := fmt.Sprintf("%dms", milliseconds)
	switch seconds := milliseconds / 1000; oneOf(t, "unit", "ms", "s", "m") {
	case "s":
		text = fmt.Sprintf("%ds%dms", seconds, milliseconds%1000)
	case "m":
		text = fmt.Sprintf("%dh%dm%ds%dms", seconds/3600, seconds/60%60, seconds%60, milliseconds%1000)
	}
	return v1alpha1.Duration(text)
}

// name generates a name with a prefix, so that names with different purposes differ.
func name(t *rapid.T, prefix string) string {
	return prefix + rapid.StringOfN(rapid.SampledFrom([]rune(`ab0./%+ üß🐇#*{}"'\`)), 0, 12, -1).Draw(t, "name")
}

func key(t *rapid.T) v1alpha1.RoutingKey {
	return v1alpha1.RoutingKey(rapid.StringOfN(rapid.SampledFrom([]rune(`ab.#*/% ü`)), 0, 8, -1).Draw(t, "key"))
}

func arguments(t *rapid.T, prefix string) v1alpha1.Arguments {
	keys := rapid.StringMatching(prefix + `[a-z]{1,5}`)
	values := rapid.Custom(func(t *rapid.T) intstr.IntOrString {
		if yes(t, "string") {
			return intstr.FromString(oneOf(t, "value", "", "a", "10", "true", "ü"))
		}
		return intstr.FromInt32(rapid.Int32().Draw(t, "value"))
	})
	given := rapid.MapOfN(keys, values, 0, 3).Draw(t, "arguments")
	if len(given) == 0 {
		return nil
	}
	return given
}

func yes(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func maybe[T any](t *rapid.T, label string, values *rapid.Generator[T]) *T {
	if !yes(t, "has "+label) {
		return nil
	}
	value := values.Draw(t, label)
	return &value
}
