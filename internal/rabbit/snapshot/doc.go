// Package snapshot holds the snapshot of a vhost: its exchanges, queues, bindings and policies. A refresh reads the whole vhost; between
// refreshes, each change that the broker has confirmed is applied to the snapshot. Nothing here connects to a broker except by a
// management.Client.
//
//   - read.go: how a refresh reads the management API
//   - store.go: the current snapshot of a vhost, and how refreshes and confirmed changes are combined. Begin reading here
//   - snapshot.go, drop.go: the objects of a snapshot, and the selection of them that a caller observes
//   - changes.go, notice.go: what differs between two snapshots, and which objects that concerns
//   - doubt.go: objects that a single refresh did not see
//   - deadletterindex.go, deadletters.go: which queues dead-letter to an object
//   - fences.go: policies that deletions set
//   - size.go, words.go: the memory that a snapshot takes
package snapshot
