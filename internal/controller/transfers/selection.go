package transfers

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

// Compile makes the selector of a spec. Its Halt says what is wrong with the selection.
func Compile(given *v1alpha1.DeadLetterSelection) (*deadletter.Selector, *Halt) {
	selector, err := deadletter.Compile(selectionOf(given))
	if err != nil {
		return nil, Stalled(v1alpha1.ReasonInvalidSelector, "spec.select."+err.Error())
	}
	return selector, nil
}

// selectionOf is the selection of a spec in the words of package deadletter.
func selectionOf(given *v1alpha1.DeadLetterSelection) deadletter.Selection {
	if given == nil {
		return deadletter.Selection{}
	}
	selection := deadletter.Selection{IDs: given.IDs, Where: given.Where}
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
