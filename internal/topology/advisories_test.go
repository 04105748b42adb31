package topology_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestAdvisoryOfADeliveryLimitBelowAttempts(t *testing.T) {
	t.Parallel()
	const message = "retry.maxAttempts is 25, and this broker (4.3) counts deliveries across rejects: once a message has been rejected 20 times, " +
		"a lost connection dead-letters it. Set queue.deliveryLimit to Unlimited or to at least retry.maxAttempts"
	low := []v1alpha1.Advisory{{Code: v1alpha1.AdvisoryDeliveryLimitBelowAttempts, Name: "orders", Message: message}}
	for name, test := range map[string]struct {
		spec    string
		version vhost.Version
		want    []v1alpha1.Advisory
	}{
		"more attempts than the broker's limit": {`{retry: {strategy: Reject, maxAttempts: 25}}`, vhost.RabbitMQ43, low},
		"as many":                               {`{retry: {strategy: Reject, maxAttempts: 20}}`, vhost.RabbitMQ43, nil},
		"a broker that does not count on":       {`{retry: {strategy: Reject, maxAttempts: 25}}`, vhost.RabbitMQ40, nil},
		"without a limit":                       {`{retry: {strategy: Reject, maxAttempts: 25}, queue: {deliveryLimit: Unlimited}}`, vhost.RabbitMQ43, nil},
		"a limit in its arguments":              {`{retry: {strategy: Reject, maxAttempts: 25}, queue: {deliveryLimit: 30}}`, vhost.RabbitMQ43, nil},
		"an exchange of its own, so no limit":   {`{retry: {strategy: Reject, maxAttempts: 25, exchange: {name: retry}}}`, vhost.RabbitMQ43, nil},
		"another strategy":                      {`{retry: {maxAttempts: 25}}`, vhost.RabbitMQ43, nil},
		"a spec that cannot become a topology":  {`{retry: {delayTiers: [{delay: x}]}}`, vhost.RabbitMQ43, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "advisories", test.want, topology.Advisories(topologytest.ConsumerQueue(t, test.spec), test.version))
		})
	}
}
