// Package snapshot holds the snapshot of a vhost: its exchanges, queues, bindings and policies. A refresh reads the whole vhost; between
// refreshes, each change that the broker has confirmed is applied to the snapshot. The package reads a broker only through a
// management.Client.
//
//   - read.go: how a refresh reads the management API
//   - store.go: the current snapshot of a vhost, with confirmed changes. Begin reading here
//   - snapshot.go, drop.go: the objects of a snapshot, and the selection for a caller
//   - changes.go, notice.go: the differences between two snapshots
//   - doubt.go: objects that a single refresh did not see
//   - deadletterindex.go, deadletters.go: the queues that dead-letter to an object
//   - fences.go: policies that deletions set
//   - size.go, words.go: the memory that a snapshot takes
package snapshot
