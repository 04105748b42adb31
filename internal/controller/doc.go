// Package controller sets up the reconcilers of BrokerConnections, ConsumerQueues, Redrives and Purges, with the cache and the
// indexes that they share. Begin with Setup.
//
// Packages brokerconnection, consumerqueue and deadletterjob have what each kind does. Package brokers keeps the connections.
// Package topology computes what a spec means, package plan decides what to do about a difference, and package rabbit speaks to
// the broker. None of that happens here.
package controller
