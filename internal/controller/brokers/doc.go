// Package brokers owns what the operator keeps per broker: the connections (pool.go), who may use them at a time (limiter.go),
// which resources wait for a refresh (refreshgate.go), and the deletions that go on in the background (deletiontasks.go).
// Reconcilers know brokers by the interface Broker only; package brokerstest has one in memory.
package brokers
