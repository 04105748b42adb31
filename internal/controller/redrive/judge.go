package redrive

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
)

// judge decides about the messages of a Redrive.
type judge struct {
	rules deadletter.Rules
	stamp deadletter.Stamp
	// to is where messages are published; nil if each goes where it was published first.
	to  *contract.Route
	now func() time.Time
}

func (j judge) Skips(message *amqp.Delivery) string {
	return string(j.rules.Skips(j.rules.Source.Read(message), j.now()))
}

var errNoOrigin = errors.New("the message does not tell where it was published first")

func (j judge) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	letter := j.rules.Source.Read(message)
	route := contract.Route{Exchange: letter.Origin.Exchange, RoutingKey: letter.Origin.RoutingKey}
	switch {
	case j.to != nil:
		route = *j.to
	case !letter.Origin.Routed:
		return route, amqp.Publishing{}, errNoOrigin
	}
	return route, j.stamp.Copy(letter, j.now(), seq), nil
}

func (j judge) ID(message *amqp.Delivery) string { return deadletter.Fingerprint(message) }

// judgeOf makes the judge of a Redrive. Its error says what is wrong with the selection.
func judgeOf(redrive *v1alpha1.Redrive, m move) (judge, error) {
	selector, err := deadletter.Compile(selectionOf(redrive.Spec.Select))
	if err != nil {
		return judge{}, fmt.Errorf("spec.select.%w", err)
	}
	rules := deadletter.Rules{
		Source: m.source, Selector: selector, RedriveID: string(redrive.UID), MaxRedrives: numberOf(redrive.Spec.MaxRedrives, -1),
	}
	if m.limited { // what stays may be deleted, so nothing does
		rules.RedriveID, rules.MaxRedrives = "", -1
	}
	return judge{
		rules: rules,
		stamp: deadletter.Stamp{
			ID: string(redrive.UID), Name: redrive.Namespace + "/" + redrive.Name, From: m.turn.queue,
			By: redrive.Spec.RequestedBy, Reason: redrive.Spec.Reason, Remove: redrive.Spec.RemoveHeaders,
		},
		to: m.to(), now: time.Now,
	}, nil
}

// selectionOf is the selection of a Redrive in the words of package deadletter.
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

// numberOf is the number of a field that may be Unlimited, which is this number then.
func numberOf(field *intstr.IntOrString, unlimited int) int {
	if field == nil || field.Type == intstr.String {
		return unlimited
	}
	return field.IntValue()
}
