// Package brokers owns the connections to brokers, and limits and queues the work at each broker. Begin with broker.go and pool.go.
//
//   - broker.go: a connection as reconcilers use it, in four small interfaces; package brokerstest has one in memory
//   - pool.go, indexes.go: the open connections, and which ConsumerQueues a notice of a connection enqueues
//   - maxconnections.go: how many connections a namespace may have
//   - limiter.go: how many reconciliations may wait for a broker
//   - refreshgate.go: the reconciliations that wait for a refresh
//   - deletiontasks.go: the deletions that run in the background
package brokers
