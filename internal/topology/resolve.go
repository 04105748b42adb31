package topology

import (
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// resolved is a spec with all defaults for a version of RabbitMQ.
type resolved struct {
	version vhost.Version

	main     string
	queue    v1alpha1.QueueSpec
	bindings []v1alpha1.SourceBinding

	// strategy is empty if retry is disabled.
	strategy    v1alpha1.RetryStrategy
	maxAttempts int32
	tiers       []tier
	// retryExchange is nil if messages reach the tiers through the default exchange.
	retryExchange  *Exchange
	returnTo       *v1alpha1.ReturnRoute
	returnExchange string
	// returnKey is nil if messages keep the key with which they entered the tier.
	returnKey  *string
	redelivery *redelivery

	// dlx is nil if dead-lettering is disabled.
	dlx         *Exchange
	dlq         string
	dlqKey      string
	dlqSettings v1alpha1.QueueSettings

	atLeastOnce bool

	// rejectMode is how rejected messages reach the delay tier; empty unless the strategy is Reject.
	rejectMode v1alpha1.RejectMode
}

type tier struct {
	queue, key string
	delay      int64 // milliseconds
}

type redelivery struct {
	min, max int64 // milliseconds
}

func resolve(cq *v1alpha1.ConsumerQueue, version vhost.Version) (resolved, error) {
	spec := resolved{
		version:     version,
		main:        cq.QueueName(),
		bindings:    cq.Spec.Bindings,
		atLeastOnce: cq.Spec.DeadLetterStrategy != v1alpha1.DeadLetterAtMostOnce,
	}
	if cq.Spec.Queue != nil {
		spec.queue = *cq.Spec.Queue
	}
	if err := resolveRetry(&spec, cq.Spec.Retry); err != nil {
		return spec, err
	}
	resolveDeadLetter(&spec, cq.Spec.DeadLetter)
	spec.rejectMode = rejectModeOf(spec)
	return spec, nil
}

func rejectModeOf(spec resolved) v1alpha1.RejectMode {
	switch {
	case spec.strategy != v1alpha1.RetryStrategyReject:
		return ""
	case spec.dlx != nil && spec.dlx.Type == v1alpha1.ExchangeHeaders && spec.retryExchange == nil:
		return v1alpha1.RejectByReason
	}
	return v1alpha1.RejectStraight
}

// defaultDeadLetterType returns headers if a headers exchange can separate rejected messages from other dead letters. RabbitMQ writes the
// necessary header since 4.0.
func defaultDeadLetterType(spec *resolved) v1alpha1.ExchangeType {
	if spec.strategy == v1alpha1.RetryStrategyReject && spec.retryExchange == nil && spec.version.AtLeast(vhost.RabbitMQ40) {
		return v1alpha1.ExchangeHeaders
	}
	return v1alpha1.ExchangeFanout
}

func resolveDeadLetter(spec *resolved, given *v1alpha1.DeadLetterSpec) {
	if given == nil {
		given = &v1alpha1.DeadLetterSpec{}
	}
	if given.Policy == v1alpha1.DeadLetterPolicyDisabled {
		return
	}
	spec.dlx = &Exchange{Name: spec.main + ".dlx", Type: defaultDeadLetterType(spec), Role: v1alpha1.RoleDeadLetter, Declare: true}
	if given.Exchange != nil {
		if given.Exchange.Name != "" {
			spec.dlx.Name = string(given.Exchange.Name)
		}
		if given.Exchange.Type != "" {
			spec.dlx.Type = given.Exchange.Type
		}
	}
	spec.dlq = spec.main + ".dlq"
	if given.Queue != nil {
		spec.dlqSettings = given.Queue.QueueSettings
		if given.Queue.Name != "" {
			spec.dlq = string(given.Queue.Name)
		}
	}
	switch {
	case given.RoutingKey != nil:
		spec.dlqKey = string(*given.RoutingKey)
	case spec.dlx.Type != v1alpha1.ExchangeFanout:
		spec.dlqKey = spec.dlq
	}
}

func resolveRetry(spec *resolved, given *v1alpha1.RetrySpec) error {
	if given == nil {
		given = &v1alpha1.RetrySpec{}
	}
	if given.Policy == v1alpha1.RetryPolicyNone {
		return nil
	}
	spec.strategy = v1alpha1.RetryStrategyPublish
	if given.Strategy != "" {
		spec.strategy = given.Strategy
	}
	if given.Exchange != nil {
		spec.retryExchange = &Exchange{
			Name: string(given.Exchange.Name), Type: v1alpha1.ExchangeDirect, Role: v1alpha1.RoleRetry, Declare: true,
		}
		if given.Exchange.Type != "" {
			spec.retryExchange.Type = given.Exchange.Type
		}
	}
	spec.returnKey = &spec.main
	if given.ReturnTo != nil {
		spec.returnTo = given.ReturnTo
		spec.returnExchange = string(given.ReturnTo.Exchange)
		spec.returnKey = (*string)(given.ReturnTo.RoutingKey)
	}
	if err := resolveTiers(spec, given.DelayTiers); err != nil {
		return err
	}
	spec.maxAttempts = ptr.Deref(given.MaxAttempts, defaultMaxAttempts(spec))
	return resolveRedelivery(spec, given.RedeliveryDelay)
}

// defaultMaxAttempts is the number of delay tiers plus one under Publish, so that each delay is used once.
func defaultMaxAttempts(spec *resolved) int32 {
	if spec.strategy == v1alpha1.RetryStrategyPublish {
		return int32(len(spec.tiers)) + 1
	}
	return 5
}

// defaultTiers are the delays of each strategy if the spec gives none.
var defaultTiers = map[v1alpha1.RetryStrategy][]v1alpha1.DelayTier{
	v1alpha1.RetryStrategyPublish: {{Delay: "30s"}, {Delay: "5m"}, {Delay: "30m"}},
	v1alpha1.RetryStrategyReject:  {{Delay: "30s"}},
}

func resolveTiers(spec *resolved, given []v1alpha1.DelayTier) error {
	if given == nil {
		given = defaultTiers[spec.strategy]
	}
	for _, want := range given {
		delay, err := milliseconds(want.Delay)
		if err != nil {
			return err
		}
		resolved := tier{queue: string(want.QueueName), delay: delay}
		if resolved.queue == "" {
			resolved.queue = spec.main + ".retry." + CompactDelay(delay)
		}
		resolved.key = resolved.queue
		if want.RoutingKey != nil {
			resolved.key = string(*want.RoutingKey)
		}
		spec.tiers = append(spec.tiers, resolved)
	}
	return nil
}

func resolveRedelivery(spec *resolved, given *v1alpha1.RedeliveryDelay) error {
	if given == nil {
		return nil
	}
	shortest, err := milliseconds(given.Min)
	if err != nil {
		return err
	}
	longest, err := milliseconds(given.Max)
	if err != nil {
		return err
	}
	spec.redelivery = &redelivery{min: shortest, max: longest}
	return nil
}

// mainDeadLettersTo returns the route of the main queue's dead letters. With a nil key, each message keeps its own.
func (r resolved) mainDeadLettersTo() (exchange string, key *string, ok bool) {
	switch {
	case r.rejectMode == v1alpha1.RejectStraight && r.retryExchange != nil:
		return r.retryExchange.Name, &r.tiers[0].key, true
	case r.rejectMode == v1alpha1.RejectStraight:
		return "", &r.tiers[0].queue, true
	case r.dlx == nil:
		return "", nil, false
	case r.rejectMode == v1alpha1.RejectByReason || r.dlx.Type == v1alpha1.ExchangeFanout:
		return r.dlx.Name, nil, true
	}
	return r.dlx.Name, &r.dlqKey, true
}

// returnRoute returns the route of expired messages, which Warren watches. It is nil if they return directly to the main queue.
func returnRoute(spec resolved) *ReturnRoute {
	if spec.returnTo == nil {
		return nil
	}
	route := &ReturnRoute{Exchange: spec.returnExchange, Queue: spec.main}
	if spec.returnKey != nil {
		route.Keys = []string{*spec.returnKey}
		return route
	}
	if spec.rejectMode == v1alpha1.RejectByReason {
		return route // each message keeps the key with which it was first published
	}
	for _, tier := range spec.tiers {
		route.Keys = append(route.Keys, tier.key)
	}
	return route
}
