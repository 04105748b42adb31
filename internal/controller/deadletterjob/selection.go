package deadletterjob

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

// compileSelector compiles spec.selector. It returns a Blocker if the selector is invalid.
func compileSelector(given *v1alpha1.DeadLetterSelector) (*deadletter.Selector, *Blocker) {
	selector, err := deadletter.Compile(selectionOf(given))
	if err != nil {
		return nil, stalled(v1alpha1.ReasonInvalidSelector, "spec.selector.%v", err)
	}
	return selector, nil
}

// countedApart returns which messages are counted apart: those of unknown origin in a shared queue. It returns nil if the rules
// select no such message.
func countedApart(rules deadletter.Rules) func(*amqp.Delivery) bool {
	if !rules.Source.Shared || !rules.Selector.UnknownOrigin {
		return nil
	}
	return func(message *amqp.Delivery) bool { return rules.Source.MayBeOfOthers(rules.Source.Read(message)) }
}

// selectionOf converts spec.selector for package deadletter.
func selectionOf(given *v1alpha1.DeadLetterSelector) deadletter.Selection {
	if given == nil {
		return deadletter.Selection{}
	}
	selection := deadletter.Selection{IDs: given.IDs, Expression: given.Expression, UnknownOrigin: given.UnknownOrigin}
	for _, reason := range given.Reasons {
		selection.Reasons = append(selection.Reasons, deadletter.Reason(reason))
	}
	for _, header := range given.Headers {
		selection.Headers = append(selection.Headers, deadletter.HeaderRequirement{
			Name: header.Name, Operator: deadletter.Operator(header.Operator), Values: header.Values,
		})
	}
	if given.DiedAfter != nil {
		selection.DiedAfter = given.DiedAfter.Time
	}
	if given.DiedBefore != nil {
		selection.DiedBefore = given.DiedBefore.Time
	}
	return selection
}
