package deadletterjob

import (
	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

// compileSelector compiles spec.selector. It returns a Blocker if the selector is invalid.
func compileSelector(given *v1alpha1.DeadLetterSelector) (*deadletter.Selector, *Blocker) {
	selector, err := deadletter.Compile(ptr.Deref(given, v1alpha1.DeadLetterSelector{}))
	if err != nil {
		return nil, stalled(v1alpha1.ReasonInvalidSelector, "spec.selector.%v", err)
	}
	return selector, nil
}

// countedApart returns the function that selects messages to count separately: messages of unknown origin in a shared queue. It returns nil
// if the rules select none of them.
func countedApart(rules deadletter.Rules) func(*amqp.Delivery) bool {
	if !rules.Source.Shared || !rules.Selector.UnknownOrigin {
		return nil
	}
	return func(message *amqp.Delivery) bool { return rules.Source.MayBeOfOthers(rules.Source.Read(message)) }
}
