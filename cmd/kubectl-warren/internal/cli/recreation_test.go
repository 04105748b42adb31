package cli

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	whenEmpty := planned(t, v1alpha1.RecreatePolicyWhenEmpty)
	file := planned(t, v1alpha1.RecreatePolicyMigrate)
	file.Spec.Queue.MessageTTL = "10m"
	blocked := planned(t, v1alpha1.RecreatePolicyWhenEmpty)
	meta.SetStatusCondition(&blocked.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionRecreationRequired, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRecreationBlocked,
		Message: `queue "orders" must be recreated: x-message-ttl is not set, should be 300000; user "warren" lacks the tag policymaker`,
	})
	migrate := planned(t, v1alpha1.RecreatePolicyMigrate)
	waiting := planned(t, v1alpha1.RecreatePolicyMigrate)
	meta.SetStatusCondition(&waiting.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionRecreationRequired, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaitingForConsumers,
		Message: `Warren recreates queue "orders" after its 2 consumers have stopped`,
	})
	for name, test := range map[string]struct{ cq, inCluster *v1alpha1.ConsumerQueue }{
		"WhenEmpty": {whenEmpty, whenEmpty},
		"Migrate":   {migrate, migrate},
		"blocked":   {blocked, blocked},
		"waiting":   {waiting, waiting},
		"file":      {file, blocked}, // the next spec may be recreated
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, "plan-"+name, printed(t, func(out *bytes.Buffer) error {
				made, err := preview.AgainstStatus(test.cq, test.inCluster, vhost.RabbitMQ43, nil)
				if err != nil {
					return err
				}
				return printPreview(out, made, false, false)
			}))
		})
	}
}
