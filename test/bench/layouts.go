package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// namespace is the namespace of all resources.
const namespace = "default"

// layout defines what the ConsumerQueues share.
type layout struct {
	name string
	spec func(name string) v1alpha1.ConsumerQueueSpec
}

// layoutTable has all layouts. In each, a ConsumerQueue has a main queue that is bound to a common exchange, and one delay tier.
var layoutTable = []layout{
	{"own", func(name string) v1alpha1.ConsumerQueueSpec {
		return v1alpha1.ConsumerQueueSpec{Bindings: fromShop(name), Retry: &v1alpha1.RetrySpec{DelayTiers: tiers("30s")}}
	}},
	{"shared", func(name string) v1alpha1.ConsumerQueueSpec {
		key := v1alpha1.RoutingKey(name)
		return v1alpha1.ConsumerQueueSpec{
			Bindings: fromShop(name), Retry: &v1alpha1.RetrySpec{DelayTiers: tiers("30s")},
			DeadLetter: &v1alpha1.DeadLetterSpec{
				Exchange:   &v1alpha1.DeadLetterExchange{Name: "dead", Type: v1alpha1.ExchangeDirect},
				RoutingKey: &key, Queue: &v1alpha1.DeadLetterQueueSpec{Name: "graveyard"},
			},
		}
	}},
}

func layoutNames() []string {
	names := make([]string, 0, len(layoutTable))
	for _, l := range layoutTable {
		names = append(names, l.name)
	}
	return names
}

func fromShop(name string) []v1alpha1.SourceBinding {
	return []v1alpha1.SourceBinding{{
		Exchange:    v1alpha1.SourceExchange{Name: "shop", Type: v1alpha1.ExchangeTopic},
		RoutingKeys: []v1alpha1.RoutingKey{v1alpha1.RoutingKey(name)},
	}}
}

func tiers(delays ...v1alpha1.Duration) []v1alpha1.DelayTier {
	list := make([]v1alpha1.DelayTier, 0, len(delays))
	for _, delay := range delays {
		list = append(list, v1alpha1.DelayTier{Delay: delay})
	}
	return list
}

// nameOf returns the name of a ConsumerQueue and its main queue. Numbers begin with 0.
func nameOf(number int) string { return fmt.Sprintf("orders-%05d", number) }

func (l layout) consumerQueue(number int) *v1alpha1.ConsumerQueue {
	name := nameOf(number)
	return &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: l.spec(name)}
}
