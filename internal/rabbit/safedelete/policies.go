package safedelete

import (
	"cmp"
	"context"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// determinePolicies determines the policies that apply to a queue. It asks the broker only if Warren cannot evaluate a pattern, because the
// broker reports changes seconds late, and may still report a fence that was taken down.
func (p preflight) determinePolicies(ctx context.Context, queue string, now *queueStats, policies []vhost.Policy) error {
	user, unclear := holdingPolicy(queue, policies, false)
	operator, unclearOperator := holdingPolicy(queue, policies, true)
	now.user, now.operator = user.Definition, operator.Definition
	unclear = cmp.Or(unclear, unclearOperator)
	if unclear == "" {
		return nil
	}
	shown, err := p.deleter.queueInfo(ctx, queue, management.WithStatistics)
	switch {
	case err != nil:
		return err
	case shown == nil || !shown.Effective.Known:
		return p.unproven("queue %q: the broker does not report which policy applies, and the pattern of policy %q may match",
			queue, unclear)
	}
	if _, own := fence.ParseName(shown.Policy); own {
		return p.unproven("queue %q: the broker still shows policy %q of another deletion", queue, shown.Policy)
	}
	now.user, now.operator = vhost.Normalize(shown.Effective.Definition), nil
	return nil
}

// holdingPolicy returns the policy, or operator policy, that applies to a queue. unclear names a policy that may apply instead; see
// vhost.PoliciesOf.
func holdingPolicy(queue string, policies []vhost.Policy, operator bool) (holding vhost.Policy, unclear string) {
	effective, possible := vhost.PoliciesOf(queue, vhost.TypeQuorum, policies, operator)
	if effective != nil {
		holding = *effective
	}
	if len(possible) > 0 {
		unclear = possible[0].Name
	}
	return holding, unclear
}

// PossibleDefinitions returns the definitions of policies that RabbitMQ may apply to a queue; see vhost.PossibleDefinitions. It ignores
// fences and operator policies.
func PossibleDefinitions(queue string, policies []vhost.Policy) []vhost.Arguments {
	return vhost.PossibleDefinitions(queue, WithoutFences(policies), false)
}
