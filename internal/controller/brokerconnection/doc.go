// Package brokerconnection reconciles BrokerConnections: it reads their credentials (credentials.go), keeps one connection open
// for each in the pool of package brokers, says in the status how the connection fares (health.go), and lets a BrokerConnection
// go when nobody needs it any more and none of its fences stands (delete.go, deletionclock.go, fences.go).
package brokerconnection
