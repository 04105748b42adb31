// Package transfers is what Redrives and Purges have in common. It reconciles them: it finds the dead-letter queue and whose turn it is
// there, has messages taken out by a transfer that goes on by itself, and writes the status.
//
//   - job.go: a Redrive or a Purge; what they do differently is their Work
//   - controller.go: one object from its creation to its end
//   - scope.go: one reconciliation of an object that has not ended
//   - resolve.go, halt.go: where messages are taken from, or why none are
//   - order.go, tasks.go: whose turn it is, and the transfers of those that have it
//   - finished.go: the records that keep a job which comes back without its status from running again
//   - status.go, events.go: what is told, and how often
//   - audit.go: what the log says of a job
//   - watches.go: what has an object reconciled
package deadletterjob
