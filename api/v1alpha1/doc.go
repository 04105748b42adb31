// Package v1alpha1 holds Warren's custom resources, BrokerConnection and ConsumerQueue: their types, static defaults,
// CEL validation, and the constants of conditions and reasons. It imports only apimachinery; what a spec becomes at the
// broker is decided in internal/topology.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=messaging.warren.dev
package v1alpha1
