// Package topology computes the objects of a ConsumerQueue at the broker: its exchanges, queues and bindings, with their
// arguments.
//
// Begin with Desired, which computes these objects from a spec and a broker version. resolve.go fills in defaults, arguments.go has
// the table of queue arguments, contract.go computes the contract for consumers. Package plan compares the objects with the objects
// at a broker.
//
// The package is pure: it has no context, no I/O and no clock, and its tests need neither a broker nor a cluster.
package topology
