package brokers

import "slices"

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
