package conditions

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A broker chooses the text of its refusal, and may send another one each time. Each ConsumerQueue has the result in its status.
func TestWhyNotReadyQuotesNoBroker(t *testing.T) {
	t.Parallel()
	const cannotReach = `BrokerConnection "default" cannot reach its broker. See the status of the BrokerConnection`
	for reason, want := range map[string]string{
		v1alpha1.ReasonBrokerUnreachable:    cannotReach,
		v1alpha1.ReasonAuthenticationFailed: `BrokerConnection "default" is not ready: AuthenticationFailed. See the status of the BrokerConnection`,
		v1alpha1.ReasonPermissionDenied:     `BrokerConnection "default" is not ready: PermissionDenied. See the status of the BrokerConnection`,
		v1alpha1.ReasonVHostNotFound:        `BrokerConnection "default" is not ready: VHostNotFound. See the status of the BrokerConnection`,
		v1alpha1.ReasonResponseTooLarge:     `BrokerConnection "default" is not ready: ResponseTooLarge. See the status of the BrokerConnection`,
		v1alpha1.ReasonClusterMismatch:      `BrokerConnection "default" is not ready: ClusterMismatch. See the status of the BrokerConnection`,
		v1alpha1.ReasonSecretNotFound:       `BrokerConnection "default" is not ready: the text`,
		v1alpha1.ReasonSecretInvalid:        `BrokerConnection "default" is not ready: the text`,
		v1alpha1.ReasonClusterNotReady:      `BrokerConnection "default" is not ready: the text`,
		v1alpha1.ReasonTooManyConnections:   `BrokerConnection "default" is not ready: the text`,
		v1alpha1.ReasonInvalidSpec:          `BrokerConnection "default" is not ready: the text`,
	} {
		topologytest.Equal(t, reason, want, WhyNotReady("default", metav1.Condition{Reason: reason, Message: "the text"}))
	}
}
