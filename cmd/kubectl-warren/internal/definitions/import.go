package definitions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// Kind is the kind of a Finding.
type Kind string

// The values of Kind.
const (
	// Differs: an object of a ConsumerQueue differs from the file.
	Differs Kind = "Differs"
	// Assumed: the file does not contain a value, so the user should check the assumed one.
	Assumed Kind = "Assumed"
	// LeftOut: the file has an object or setting that no ConsumerQueue can have.
	LeftOut Kind = "LeftOut"
)

// Finding is a fact about an import that the user should know.
type Finding struct {
	Kind Kind
	// ConsumerQueue is the name of the resource; empty for LeftOut.
	ConsumerQueue string
	Message       string
}

// Options of Import.
type Options struct {
	// VHost is the vhost to import; empty for a file of a single vhost.
	VHost string
	// Version is the RabbitMQ version of the ConsumerQueues' broker.
	Version vhost.Version
	// Namespace and Connection are written into each ConsumerQueue, if given.
	Namespace, Connection string
	DriftPolicy           v1alpha1.DriftPolicy
}

// Import returns ConsumerQueues for the queues of a vhost, and findings: assumptions, differences between the file and the
// ConsumerQueues, and objects that it left out. Warren's planner compares each ConsumerQueue with the file.
func Import(file File, options Options) ([]*v1alpha1.ConsumerQueue, []Finding) {
	observed := file.observed(options.VHost)
	roles := rolesOf(observed)
	var queues []*v1alpha1.ConsumerQueue
	var findings []Finding
	covered := vhost.IDs{}
	names := map[string]bool{}
	for _, main := range roles.mains() {
		if why := unfit(observed.Queues[main]); why != "" {
			findings = append(findings, Finding{Kind: LeftOut, Message: fmt.Sprintf("queue %q %s", main, why)})
			covered[vhost.QueueID(main)] = true
			continue
		}
		cq := newConsumerQueue(main, names, options)
		cq.Spec = roles.specOf(main)
		desired, err := topology.Desired(cq, options.Version)
		if limit := cq.Spec.Queue.DeliveryLimit; err != nil && limit != nil && limit.StrVal == v1alpha1.DeliveryLimitBrokerDefault {
			cq.Spec.Queue.DeliveryLimit = nil // the broker's default may lose messages: another limit is a difference
			desired, err = topology.Desired(cq, options.Version)
		}
		if err != nil {
			findings = append(findings, Finding{Kind: LeftOut, Message: fmt.Sprintf("queue %q cannot be a ConsumerQueue: %v", main, err)})
			covered[vhost.QueueID(main)] = true
			continue
		}
		findings = append(findings, roles.assumptions(cq, main)...)
		findings = append(findings, differences(cq.Name, desired, observed)...)
		desired.AddIDs(covered)
		simplify(cq, options.Version)
		cq.Spec.DriftPolicy = options.DriftPolicy
		if options.Connection != "" {
			cq.Spec.ConnectionRef = &v1alpha1.LocalObjectReference{Name: options.Connection}
		}
		queues = append(queues, cq)
	}
	return queues, append(findings, leftOut(file, options.VHost, covered)...)
}

// unfit returns why a queue cannot be the main queue of any ConsumerQueue.
func unfit(queue vhost.Queue) string {
	switch {
	case queue.Type() == "stream":
		return "is a stream: a ConsumerQueue has quorum queues"
	case !queue.Durable || queue.AutoDelete:
		return "is transient or auto-delete: a ConsumerQueue has durable queues"
	}
	return ""
}

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// newConsumerQueue returns a ConsumerQueue named after its main queue, as closely as Kubernetes allows.
func newConsumerQueue(main string, taken map[string]bool, options Options) *v1alpha1.ConsumerQueue {
	base := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(main), "-"), "-.")
	if base == "" {
		base = "queue"
	}
	name := base
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	taken[name] = true
	return &v1alpha1.ConsumerQueue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ConsumerQueue"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: options.Namespace},
	}
}

// differences compares a topology with the file.
func differences(name string, desired topology.Topology, observed vhost.Observed) []Finding {
	none := func(string, []vhost.Binding) []vhost.ID { return nil } // leftOut reports foreign bindings once for the whole vhost
	comparison := plan.Diff(desired, observed, plan.Input{Unwanted: none})
	findings := make([]Finding, 0, len(comparison.Changes))
	for _, change := range comparison.Changes {
		message := change.Message
		if change.Effect == v1alpha1.EffectRecreate {
			message = fmt.Sprintf("%s %q: %s", strings.ToLower(string(change.Kind)), change.Name, message)
		}
		findings = append(findings, Finding{Kind: Differs, ConsumerQueue: name, Message: message})
	}
	return findings
}

// assumptions returns the values of a ConsumerQueue that the file does not contain.
func (r *roles) assumptions(cq *v1alpha1.ConsumerQueue, main string) []Finding {
	var findings []Finding
	assume := func(format string, values ...any) {
		findings = append(findings, Finding{Kind: Assumed, ConsumerQueue: cq.Name, Message: fmt.Sprintf(format, values...)})
	}
	retry := cq.Spec.Retry
	switch retry.Strategy {
	case v1alpha1.RetryStrategyPublish:
		assume("the strategy is Publish: consumers publish failed messages to %s; the file does not contain maxAttempts, "+
			"which consumers enforce",
			strings.Join(r.tiers[main], ", "))
	case v1alpha1.RetryStrategyReject:
		assume("the strategy is Reject: consumers reject failed messages, and RabbitMQ dead-letters them to %s; the file does not contain "+
			"maxAttempts, which consumers enforce",
			strings.Join(r.tiers[main], ", "))
		if found, parks := r.deadLetter[main]; parks && cq.Spec.DeadLetter.Exchange != nil {
			assume("queue %q is assumed to be the dead-letter queue in which consumers park messages, because of its name: "+
				"no queue argument names it", found.queue)
		}
	case v1alpha1.RetryStrategyRequeue:
		assume("the strategy is Requeue: the queue has x-delivery-limit and no delay tier, so consumers requeue by basic.reject")
	}
	if dlx, sends := r.deadLettering(main); sends && r.ttl(main) > 0 && len(r.tiers[main]) == 0 {
		assume("queue %q has a TTL and dead-letters to %v, and is assumed to be a main queue: if it has no consumers, it is a delay tier "+
			"of another queue", main, r.targets(dlx))
	}
	return findings
}

// leftOut returns the objects of a vhost that no ConsumerQueue has.
func leftOut(file File, vhostName string, covered vhost.IDs) []Finding {
	var findings []Finding
	add := func(format string, values ...any) {
		findings = append(findings, Finding{Kind: LeftOut, Message: fmt.Sprintf(format, values...)})
	}
	for _, queue := range file.Queues {
		if queue.VHost == vhostName && !covered[vhost.QueueID(queue.Name)] {
			add("queue %q is not part of a ConsumerQueue", queue.Name)
		}
	}
	for _, exchange := range file.Exchanges {
		if exchange.VHost == vhostName && !covered[vhost.ExchangeID(exchange.Name)] {
			add("exchange %q is not part of a ConsumerQueue", exchange.Name)
		}
	}
	for _, binding := range file.Bindings {
		switch at := binding.atBroker(); {
		case binding.VHost != vhostName || binding.Source == "":
		case at.ToExchange:
			add("the binding of exchange %q to exchange %q, key %q, stays in the file",
				binding.Destination, binding.Source, binding.RoutingKey)
		case !covered[at.ID()]:
			add("the binding of queue %q to exchange %q, key %q, is not part of a ConsumerQueue",
				binding.Destination, binding.Source, binding.RoutingKey)
		}
	}
	for _, policy := range file.Policies {
		if policy.VHost == vhostName {
			add("policy %q (%s) stays in the file: Warren reads no settings from policies", policy.Name,
				strings.Join(policy.Definition.Keys(), ", "))
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return findings
}
