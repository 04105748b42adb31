// Package v1alpha1 holds Warren's custom resources BrokerConnection, ConsumerQueue, Redrive and Purge: their types, static
// defaults, CEL validation, and the constants of conditions and reasons. It imports only apimachinery. Package internal/topology
// computes the objects that a spec needs at the broker. Begin reading at consumerqueue_types.go.
//
// +kubebuilder:object:generate=true
// +groupName=messaging.warren.dev
package v1alpha1
