package brokers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// Policies lists the names of the vhost's policies, sorted.
func (v *VHost) Policies() []string {
	v.tb.Helper()
	var policies []struct{ Name string }
	v.Broker.get(v.tb, &policies, "policies", v.Name)
	names := make([]string, len(policies))
	for i, policy := range policies {
		names[i] = policy.Name
	}
	slices.Sort(names)
	return names
}

// TryPolicies returns the definitions of the vhost's policies by name, or an error while the broker does not answer.
func (v *VHost) TryPolicies() (map[string]map[string]any, error) {
	status, answer, err := v.Broker.ask(http.MethodGet, nil, []string{"policies", v.Name})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("list policies: %d %s", status, answer)
	}
	var policies []struct {
		Name       string
		Definition map[string]any
	}
	if err == nil {
		err = json.Unmarshal(answer, &policies)
	}
	definitions := map[string]map[string]any{}
	for _, policy := range policies {
		definitions[policy.Name] = policy.Definition
	}
	return definitions, err
}
