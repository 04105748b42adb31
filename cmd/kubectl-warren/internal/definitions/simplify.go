package definitions

import (
	"reflect"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// simplify removes defaults from a spec, which do not change the topology.
func simplify(cq *v1alpha1.ConsumerQueue, version vhost.Version) {
	want, err := topology.Desired(cq, version)
	if err != nil {
		return
	}
	for _, leaveOut := range omissions(cq) {
		shorter := cq.DeepCopy()
		leaveOut(&shorter.Spec)
		if got, err := topology.Desired(shorter, version); err == nil && reflect.DeepEqual(want, got) {
			*cq = *shorter
		}
	}
	dropEmpty(&cq.Spec)
}

// omissions returns functions that each remove one field that may have its default.
func omissions(cq *v1alpha1.ConsumerQueue) []func(*v1alpha1.ConsumerQueueSpec) {
	steps := []func(*v1alpha1.ConsumerQueueSpec){
		func(s *v1alpha1.ConsumerQueueSpec) { s.Queue.Name = "" },
		func(s *v1alpha1.ConsumerQueueSpec) { s.Queue.DeliveryLimit = nil },
		func(s *v1alpha1.ConsumerQueueSpec) { s.Queue.Overflow = "" },
		func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetterStrategy = "" },
	}
	if cq.Spec.DeadLetter.Queue != nil {
		steps = append(steps,
			func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetter.Queue.Name = "" },
			func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetter.Queue.DeliveryLimit = nil },
			func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetter.Queue.Overflow = "" },
			func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetter.RoutingKey = nil },
		)
	}
	if cq.Spec.DeadLetter.Exchange != nil {
		steps = append(steps,
			func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetter.Exchange.Name = "" },
			func(s *v1alpha1.ConsumerQueueSpec) { s.DeadLetter.Exchange.Type = "" },
		)
	}
	if cq.Spec.Retry.Exchange != nil {
		steps = append(steps, func(s *v1alpha1.ConsumerQueueSpec) { s.Retry.Exchange.Type = "" })
	}
	for i := range cq.Spec.Retry.DelayTiers {
		steps = append(steps,
			func(s *v1alpha1.ConsumerQueueSpec) { s.Retry.DelayTiers[i].QueueName = "" },
			func(s *v1alpha1.ConsumerQueueSpec) { s.Retry.DelayTiers[i].RoutingKey = nil },
		)
	}
	return append(steps, func(s *v1alpha1.ConsumerQueueSpec) { s.Retry.DelayTiers = nil })
}

// dropEmpty removes empty parts of a spec. It keeps an empty dead-letter exchange, whose presence matters for the strategy
// Reject.
func dropEmpty(spec *v1alpha1.ConsumerQueueSpec) {
	if reflect.DeepEqual(*spec.Queue, v1alpha1.QueueSpec{}) {
		spec.Queue = nil
	}
	rejects := spec.Retry.Strategy == v1alpha1.RetryStrategyReject
	if exchange := spec.DeadLetter.Exchange; exchange != nil && reflect.DeepEqual(*exchange, v1alpha1.DeadLetterExchange{}) && !rejects {
		spec.DeadLetter.Exchange = nil
	}
	if spec.DeadLetter.Queue != nil && reflect.DeepEqual(*spec.DeadLetter.Queue, v1alpha1.DeadLetterQueueSpec{}) {
		spec.DeadLetter.Queue = nil
	}
	if *spec.DeadLetter == (v1alpha1.DeadLetterSpec{}) {
		spec.DeadLetter = nil
	}
	if spec.Retry.Strategy == v1alpha1.RetryStrategyPublish {
		spec.Retry.Strategy = ""
	}
	if reflect.DeepEqual(*spec.Retry, v1alpha1.RetrySpec{}) {
		spec.Retry = nil
	}
}
