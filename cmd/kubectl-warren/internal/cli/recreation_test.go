package cli

import (
	"bytes"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/internal/vhost"
)

// planned is a ConsumerQueue whose main queue needs recreation under a policy.
func planned(t *testing.T, policy v1alpha1.RecreatePolicy) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := load(t, recorded+"recreation_required")
	cq.Spec.RecreatePolicy = policy
	cq.Status.ObservedGeneration = cq.Generation
	cq.Status.PlanHash = "sha256:6f1c"
	return cq
}

func TestPlannedRecreation(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.RecreatePolicy{v1alpha1.RecreatePolicyWhenEmpty, v1alpha1.RecreatePolicyMigrate} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			golden(t, "plan-"+string(policy), printed(t, func(out *bytes.Buffer) error {
				cq := planned(t, policy)
				made, err := preview.AgainstStatus(cq, cq, vhost.RabbitMQ43, nil)
				if err != nil {
					return err
				}
				return printPreview(out, made, false, false)
			}))
		})
	}
}
