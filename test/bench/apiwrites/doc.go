// Package apiwrites makes the writes to the API server that a new ConsumerQueue takes, its user's and the manager's, without a manager:
// for "make bench", which compares what the manager takes with the limit of the API server.
//
// Its benchmarks measure what a write of a ConsumerQueue costs a real kube-apiserver and etcd in CPU, by the kind of request:
// server-side apply, merge patch, update. Nothing here passes or fails by a time. What was measured, and what follows, stands in
// docs/adr/0027-two-writes.md.
package apiwrites
