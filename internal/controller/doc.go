// Package controller sets up the reconcilers of BrokerConnections, ConsumerQueues, Redrives and Purges, with the cache and the
// indexes that they share. Begin with Setup.
//
// Packages brokerconnection, consumerqueue, redrive and purge have what one kind does; package transfers has what Redrives and
// Purges share. Package brokers keeps the connections. Package topology decides what a spec means, package plan what to do about
// a difference, and package rabbit speaks to the broker. None of that happens here.
package controller
