package brokers

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// TryPolicies returns the definitions of the vhost's policies by name, or an error while the broker does not answer.
func (v *VHost) TryPolicies() (map[string]map[string]any, error) {
	var policies []struct {
		Name       string
		Definition map[string]any
	}
	if err := v.Broker.try(&policies, "policies", v.Name); err != nil {
		return nil, err
	}
	definitions := map[string]map[string]any{}
	for _, policy := range policies {
		definitions[policy.Name] = policy.Definition
	}
	return definitions, nil
}

// TryTTL returns the message TTL of a queue in milliseconds, or an error while the broker does not answer or the queue does not exist.
func (v *VHost) TryTTL(queue string) (int64, error) {
	var found struct {
		Arguments struct {
			TTL int64 `json:"x-message-ttl"`
		}
	}
	err := v.Broker.try(&found, "queues", v.Name, queue)
	return found.Arguments.TTL, err
}

// try reads an object of the management API, or returns an error, for tests that stop the broker.
func (b Broker) try(into any, path ...string) error {
	status, answer, err := b.ask(http.MethodGet, nil, path)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("read %q: %d %s", path, status, answer)
	}
	return json.Unmarshal(answer, into)
}
