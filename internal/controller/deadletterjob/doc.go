// Package deadletterjob reconciles Redrives and Purges, which it calls jobs. A job finds the dead-letter queue of its ConsumerQueue,
// waits for its turn, and starts a task that moves or deletes messages in the background. The reconciler writes the progress of the
// task into the status.
//
// Begin with controller.go and scope.go. The files:
//
//   - controller.go, watches.go: the reconciler of one kind, and the events that enqueue a job
//   - scope.go: one reconciliation of a job that has not ended
//   - job.go: Job has what a Redrive and a Purge share; Work is the difference, implemented in redrive*.go and purge*.go
//   - finder.go, resolve.go, move.go: the dead-letter queue and the destination of its messages
//   - blocker.go: why a job takes no messages now, or how it ended
//   - register.go, order.go: the order in which jobs and requests take messages of a queue; the dead-letter API uses the register, too
//   - slots.go: how many jobs may have begun, and which job must release its slot
//   - tasks.go, atmost.go: the tasks that run, and how many messages they may move before the next write of the status
//   - finished.go: the records that stop a job from running twice if it is restored without its status
//   - status.go, events.go, audit.go: what the status, Events and the log report
//   - refusals.go: what the broker refuses to jobs, for the status of the ConsumerQueue
//
// How messages are moved is in package mover, and which messages a selector matches is in package deadletter.
package deadletterjob
