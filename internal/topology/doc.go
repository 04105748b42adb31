// Package topology decides what a ConsumerQueue is at the broker and how that differs from what is there.
//
// It is pure: Desired turns a spec and a broker's version into exchanges, queues and bindings; Diff compares them with
// what was observed. There is no context, no I/O and no clock here, and nothing that needs a broker or a cluster to be
// tested.
package topology
