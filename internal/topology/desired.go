package topology

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Refusal is the error of a spec that has no safe topology on the broker.
type Refusal struct {
	// Reason is one of UnsupportedByBroker, UnsafeTopology and InvalidSpec.
	Reason  string
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Desired computes the topology of a ConsumerQueue on a broker of the given version. The error is a *Refusal.
func Desired(cq *v1alpha1.ConsumerQueue, version vhost.Version) (Topology, error) {
	if err := checkArgumentSizes(cq.Spec); err != nil {
		return Topology{}, err
	}
	spec, err := resolve(cq, version)
	if err != nil {
		return Topology{}, &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}
	}
	if !version.AtLeast(vhost.RabbitMQ310) {
		return Topology{}, refuse(v1alpha1.ReasonUnsupportedByBroker,
			"Warren needs RabbitMQ %s or newer and this broker is %s: upgrade the broker", vhost.RabbitMQ310, version)
	}
	if spec.rejectMode == v1alpha1.RejectByReason && !version.AtLeast(vhost.RabbitMQ40) {
		return Topology{}, refuse(v1alpha1.ReasonUnsupportedByBroker, "deadLetter.exchange.type headers needs RabbitMQ %s or newer "+
			"and this broker is %s: use type fanout, or upgrade the broker", vhost.RabbitMQ40, version)
	}
	if err := checkSafe(spec); err != nil {
		return Topology{}, err
	}
	if err := checkTierKeys(spec); err != nil {
		return Topology{}, err
	}
	desired := Topology{}
	addSources(&desired, spec)
	addRetry(&desired, spec)
	addDeadLetter(&desired, spec)
	desired.Bindings = withoutRepeated(desired.Bindings)
	if err := checkTopicKeys(desired, version); err != nil {
		return Topology{}, err
	}
	if err := addQueues(&desired, spec); err != nil {
		return Topology{}, err
	}
	if err := checkNames(desired); err != nil {
		return Topology{}, err
	}
	desired.Return, desired.RejectMode = returnRoute(spec), spec.rejectMode
	for _, queue := range desired.Queues {
		if row, found := unsupported(queue.Arguments, version); found {
			return Topology{}, refuse(v1alpha1.ReasonUnsupportedByBroker, "queue %q needs %s, which RabbitMQ supports from %s on, "+
				"and this broker is %s: remove %s or upgrade the broker", queue.Name, row.Name, row.Since, version, row.fieldOf(queue.Role))
		}
	}
	return desired, nil
}

// checkNames refuses names of Warren's own objects. A queue with the name of a hold queue could be mistaken for the recreation of another
// ConsumerQueue, perhaps in another namespace. A binding to the exchange of a backlog would receive copies of its messages.
func checkNames(desired Topology) error {
	names := make([]string, 0, len(desired.Exchanges)+len(desired.Queues))
	for _, queue := range desired.Queues {
		names = append(names, queue.Name)
	}
	for _, exchange := range desired.Exchanges {
		names = append(names, exchange.Name)
	}
	for _, name := range names {
		own := slices.IndexFunc(vhost.OwnPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if own >= 0 {
			return refuse(v1alpha1.ReasonInvalidSpec, "name %q is reserved: Warren's own objects have names that begin with %s. "+
				"Choose another name", name, vhost.OwnPrefixes[own])
		}
	}
	return nil
}

// DesiredOnOlderVersions computes the topology on the supported RabbitMQ versions before the given one at which topologies
// change, newest first. It leaves out versions that refuse the spec.
func DesiredOnOlderVersions(cq *v1alpha1.ConsumerQueue, version vhost.Version) []Topology {
	version.Patch = 0
	var older []Topology
	for _, before := range []vhost.Version{vhost.RabbitMQ40, vhost.RabbitMQ312, vhost.RabbitMQ310} {
		if before.AtLeast(version) {
			continue
		}
		if desired, err := Desired(cq, before); err == nil {
			older = append(older, desired)
		}
	}
	return older
}

// checkSafe refuses a topology that loses or blocks messages on this version. Validation does not know the version. RabbitMQ drops or holds
// a message that returns to a queue in which it died for a reason other than a reject: see the cycle rule in docs/concepts.md.
func checkSafe(spec resolved) error {
	if spec.rejectMode != v1alpha1.RejectStraight {
		return nil
	}
	version := spec.version
	limit := spec.queue.DeliveryLimit
	switch {
	case version.AtLeast(vhost.RabbitMQ40) && limit != nil && limit.StrVal == v1alpha1.DeliveryLimitBrokerDefault:
		return refuse(v1alpha1.ReasonUnsafeTopology, "queue.deliveryLimit BrokerDefault is 20 on this broker (%s), and messages "+
			"that exceed it would be lost: use Unlimited or remove it", version)
	case limit != nil && limit.Type == intstr.Int:
		return refuse(v1alpha1.ReasonUnsafeTopology, "a numeric queue.deliveryLimit with retry.strategy Reject loses messages "+
			"on this broker (%s): use Unlimited, or %s", version, notStraight(spec))
	case spec.queue.MessageTTL != "":
		return refuse(v1alpha1.ReasonUnsafeTopology, "queue.messageTTL with retry.strategy Reject loses or blocks expired messages "+
			"on this broker (%s): remove it, or %s", version, notStraight(spec))
	case (spec.queue.MaxLength != nil || spec.queue.MaxLengthBytes != nil) && !spec.atLeastOnce:
		return refuse(v1alpha1.ReasonUnsafeTopology, "queue.maxLength and queue.maxLengthBytes with retry.strategy Reject and "+
			"deadLetterStrategy AtMostOnce lose the messages that exceed them on this broker (%s): "+
			"use AtLeastOnce, remove the limits, or %s", version, notStraight(spec))
	}
	return nil
}

// notStraight returns the advice with which only rejected messages go to the delay tier: a change of the spec, or of the broker.
func notStraight(spec resolved) string {
	if !spec.version.AtLeast(vhost.RabbitMQ40) && spec.retryExchange == nil {
		return "upgrade to RabbitMQ 4.0"
	}
	return "use deadLetter.exchange type headers without retry.exchange, on RabbitMQ 4.0 or later"
}

func refuse(reason, format string, details ...any) error {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, details...)}
}

func addSources(desired *Topology, spec resolved) {
	for _, source := range spec.bindings {
		name := string(source.Exchange.Name)
		at := slices.IndexFunc(desired.Exchanges, func(e Exchange) bool { return e.Name == name })
		if at < 0 {
			at = len(desired.Exchanges)
			desired.Exchanges = append(desired.Exchanges, Exchange{Name: name, Role: v1alpha1.RoleSource})
		}
		if source.Exchange.Type != "" {
			desired.Exchanges[at].Type, desired.Exchanges[at].Declare = source.Exchange.Type, true
		}
		keys := source.RoutingKeys
		if len(keys) == 0 {
			keys = []v1alpha1.RoutingKey{""}
		}
		arguments := specArguments(source.Arguments)
		for _, key := range keys {
			desired.bind(Binding{
				Source: name, Destination: spec.main, RoutingKey: string(key), Arguments: arguments, Role: v1alpha1.RoleSource,
			})
		}
	}
}

func addRetry(desired *Topology, spec resolved) {
	if spec.retryExchange == nil {
		return
	}
	desired.Exchanges = append(desired.Exchanges, *spec.retryExchange)
	for _, tier := range spec.tiers {
		desired.bind(Binding{Source: spec.retryExchange.Name, Destination: tier.queue, RoutingKey: tier.key, Role: v1alpha1.RoleDelayTier})
	}
}

func addDeadLetter(desired *Topology, spec resolved) {
	if spec.dlx == nil {
		return
	}
	desired.Exchanges = append(desired.Exchanges, *spec.dlx)
	if spec.rejectMode != v1alpha1.RejectByReason {
		desired.bind(Binding{Source: spec.dlx.Name, Destination: spec.dlq, RoutingKey: spec.dlqKey, Role: v1alpha1.RoleDeadLetter})
		return
	}
	for _, tier := range spec.tiers {
		desired.bind(Binding{
			Source: spec.dlx.Name, Destination: tier.queue, Arguments: deathReason("rejected"), Role: v1alpha1.RoleDelayTier,
		})
	}
	for _, reason := range []string{"delivery_limit", "expired", "maxlen"} {
		desired.bind(Binding{Source: spec.dlx.Name, Destination: spec.dlq, Arguments: deathReason(reason), Role: v1alpha1.RoleDeadLetter})
	}
}

// deathReason returns the arguments that match the latest reason of a dead letter. The broker writes it into the header
// x-last-death-reason. A headers exchange matches headers that begin with x- only with all-with-x.
func deathReason(reason string) vhost.Arguments {
	return vhost.Arguments{"x-match": "all-with-x", "x-last-death-reason": reason}
}

func (t *Topology) bind(binding Binding) { t.Bindings = append(t.Bindings, binding) }

// withoutRepeated removes repeated bindings, because a broker has each binding once.
func withoutRepeated(bindings []Binding) []Binding {
	seen := vhost.IDs{}
	return slices.DeleteFunc(bindings, func(binding Binding) bool {
		id := binding.ID()
		repeated := seen[id]
		seen[id] = true
		return repeated
	})
}

func addQueues(desired *Topology, spec resolved) error {
	main, err := mainQueue(spec)
	if err != nil {
		return err
	}
	desired.Queues = append(desired.Queues, main)
	for _, tier := range spec.tiers {
		desired.Queues = append(desired.Queues, tierQueue(spec, tier))
	}
	if spec.dlx == nil {
		return nil
	}
	dlq, err := deadLetterQueue(spec)
	desired.Queues = append(desired.Queues, dlq)
	return err
}

func mainQueue(spec resolved) (Queue, error) {
	arguments, err := settingsArguments(spec.queue.QueueSettings)
	if err != nil {
		return Queue{}, err
	}
	if spec.queue.SingleActiveConsumer {
		arguments[vhost.ArgSingleActiveConsumer] = true
	}
	if exchange, key, ok := spec.mainDeadLettersTo(); ok {
		deadLetterTo(arguments, exchange, key, spec.atLeastOnce)
	}
	limit := spec.queue.DeliveryLimit
	switch {
	case spec.strategy == v1alpha1.RetryStrategyRequeue:
		arguments[vhost.ArgDeliveryLimit] = int64(spec.maxAttempts - 1)
	case limit != nil:
		setDeliveryLimit(arguments, *limit, spec.version)
	case spec.dlx == nil || spec.rejectMode == v1alpha1.RejectStraight:
		setDeliveryLimit(arguments, intstr.FromString(v1alpha1.DeliveryLimitUnlimited), spec.version)
	}
	if spec.redelivery != nil {
		arguments[vhost.ArgDelayedRetryType] = delayedRetryAll
		arguments[vhost.ArgDelayedRetryMin] = spec.redelivery.min
		arguments[vhost.ArgDelayedRetryMax] = spec.redelivery.max
	}
	return Queue{Name: spec.main, Role: v1alpha1.RoleMain, Arguments: arguments}, nil
}

func tierQueue(spec resolved, tier tier) Queue {
	arguments := vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum, vhost.ArgMessageTTL: tier.delay}
	deadLetterTo(arguments, spec.returnExchange, spec.returnKey, spec.atLeastOnce)
	return Queue{Name: tier.queue, Role: v1alpha1.RoleDelayTier, Arguments: arguments}
}

func deadLetterQueue(spec resolved) (Queue, error) {
	arguments, err := settingsArguments(spec.dlqSettings)
	if err != nil {
		return Queue{}, err
	}
	if _, set := arguments[vhost.ArgOverflow]; !set && (spec.dlqSettings.MaxLength != nil || spec.dlqSettings.MaxLengthBytes != nil) {
		arguments[vhost.ArgOverflow] = vhost.OverflowRejectPublish // otherwise the queue would drop its oldest dead letters silently
	}
	limit := intstr.FromString(v1alpha1.DeliveryLimitUnlimited)
	if spec.dlqSettings.DeliveryLimit != nil {
		limit = *spec.dlqSettings.DeliveryLimit
	}
	setDeliveryLimit(arguments, limit, spec.version)
	return Queue{Name: spec.dlq, Role: v1alpha1.RoleDeadLetter, Arguments: arguments}, nil
}

// deadLetterTo makes a queue dead-letter to an exchange. With a nil key, each message keeps its own. A quorum queue dead-letters at least
// once only if it has the strategy, overflow reject-publish and a dead-letter exchange.
func deadLetterTo(arguments vhost.Arguments, exchange string, key *string, atLeastOnce bool) {
	arguments[vhost.ArgDeadLetterExchange] = exchange
	if key != nil {
		arguments[vhost.ArgDeadLetterRoutingKey] = *key
	}
	if atLeastOnce {
		arguments[vhost.ArgDeadLetterStrategy] = vhost.StrategyAtLeastOnce
		arguments[vhost.ArgOverflow] = vhost.OverflowRejectPublish
	}
}

// setDeliveryLimit sets a delivery limit. Unlimited is -1 from RabbitMQ 4.0 on. Older versions have no limit by default, and -1
// would drop a message at its first redelivery.
func setDeliveryLimit(arguments vhost.Arguments, limit intstr.IntOrString, version vhost.Version) {
	switch {
	case limit.Type == intstr.Int:
		arguments[vhost.ArgDeliveryLimit] = int64(limit.IntVal)
	case limit.StrVal == v1alpha1.DeliveryLimitUnlimited && version.AtLeast(vhost.RabbitMQ40):
		arguments[vhost.ArgDeliveryLimit] = UnlimitedDeliveries
	}
}

// specArguments converts the arguments of a spec; nil for none.
func specArguments(given v1alpha1.Arguments) vhost.Arguments {
	if len(given) == 0 {
		return nil
	}
	arguments := make(vhost.Arguments, len(given))
	for key, value := range given {
		if value.Type == intstr.Int {
			arguments[key] = int64(value.IntVal)
		} else {
			arguments[key] = value.StrVal
		}
	}
	return arguments
}
