// Package controller sets up the reconcilers of BrokerConnections, ConsumerQueues, Redrives and Purges, with the cache and the
// indexes that they share. Begin with Setup.
//
// The reconcilers are in packages brokerconnection, consumerqueue and deadletterjob, and the connections in package brokers. Package
// topology computes the desired objects of a spec, package plan compares and decides, and package rabbit speaks to the broker.
package controller
