// Package brokerconnection reconciles BrokerConnections. Begin with controller.go.
//
//   - credentials.go: the configuration of a connection, from spec and Secrets
//   - health.go: the condition Ready of a connection
//   - delete.go, deletionclock.go, fences.go: when a deleted BrokerConnection is released
//
// The connections themselves are in the pool of package brokers.
package brokerconnection
