// Package topology decides what a ConsumerQueue is at the broker: which exchanges, queues and bindings, with which arguments.
//
// Begin with Desired, which makes these objects of a spec and the version of a broker. resolve.go has the defaults, arguments.go
// the table of queue arguments, contract.go what consumers are told. Package plan compares the objects with those of a broker.
//
// The package is pure: it has no context, no I/O and no clock, and its tests need neither a broker nor a cluster.
package topology
