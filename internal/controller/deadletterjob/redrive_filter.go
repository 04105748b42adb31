package deadletterjob

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
)

// redriveFilter selects the messages of a Redrive and writes their copies.
type redriveFilter struct {
	ruleFilter
	headers deadletter.RedriveHeaders
	// to is where messages are published; nil if each message goes where it was published first.
	to *contract.Route
	// whyDrops describes why a queue that a message may reach drops messages when it is full; empty if none does.
	whyDrops func(to contract.Route) string
}

var errNoOrigin = errors.New("the headers of the message do not say where it was published first")

func (f redriveFilter) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	deadLetter := f.rules.Source.Read(message)
	route := contract.Route{Exchange: deadLetter.Origin.Exchange, RoutingKey: deadLetter.Origin.RoutingKey}
	switch {
	case f.to != nil:
		route = *f.to
	case !deadLetter.Origin.Routed:
		return route, amqp.Publishing{}, errNoOrigin
	}
	if why := f.whyDrops(route); why != "" {
		return route, amqp.Publishing{}, fmt.Errorf("%s: when the queue is full, it drops its oldest messages", why)
	}
	return route, f.headers.Copy(deadLetter, f.now(), seq), nil
}

func newRedriveFilter(redrive *v1alpha1.Redrive, m Move) (redriveFilter, *Blocker) {
	selector, wrong := compileSelector(redrive.Spec.Selector)
	if wrong != nil {
		return redriveFilter{}, wrong
	}
	rules := deadletter.Rules{
		Source: m.Source, Selector: selector, RedriveID: string(redrive.UID),
		MaxRedrives: numberOf(redrive.Spec.MaxRedrives, -1),
	}
	if m.Limited { // the broker may delete a message that stays, so all are moved
		rules.RedriveID, rules.MaxRedrives = "", -1
	}
	return redriveFilter{
		ruleFilter: ruleFilter{rules, time.Now},
		headers: deadletter.RedriveHeaders{
			ID: string(redrive.UID), Name: redrive.Namespace + "/" + redrive.Name, From: m.Queue.Name,
			By: redrive.Spec.RequestedBy, Reason: redrive.Spec.Reason, Remove: redrive.Spec.RemoveHeaders,
		},
		to: m.To(), whyDrops: m.whyMessageDrops(),
	}, nil
}
