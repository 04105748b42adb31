package management

import "testing"

func TestEndpointOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"amqp://MQ.shop.svc": "mq.shop.svc:5672", "amqps://mq": "mq:5671", "amqp://mq:5673": "mq:5673", "amqp://[FD00::1]": "[fd00::1]:5672",
		"http://mq": "mq:80", "https://gate/rabbit": "gate:443",
	} {
		if got := EndpointOf(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
