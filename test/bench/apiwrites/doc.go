// Package apiwrites measures what a write of a ConsumerQueue costs a real kube-apiserver and etcd in CPU, by the kind of request:
// server-side apply, merge patch, update. Nothing here passes or fails by a time. What was measured, and what follows, stands in
// docs/adr/0027-two-writes.md.
package apiwrites
