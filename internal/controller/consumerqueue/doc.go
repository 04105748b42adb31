// Package consumerqueue reconciles ConsumerQueues. Begin with controller.go.
//
//   - normal.go: a resource that is not being deleted, up to the check of its BrokerConnection
//   - topology.go: from the spec to the status: compare, decide, claim (claim.go), apply, prune (prune.go)
//   - report.go, summarize.go, events.go, statussize.go: what the status and Events report
//   - scope.go: the steps without a broker, the write of the status, and the finalizer
//   - messages.go, consumed.go: message counts and other consumers in the status
//   - delete.go, teardown.go, retain.go: whether and how the topology of a deleted resource is removed, and what is retained
//   - failures.go, refusedwrites.go, redeclared.go, orphantimes.go: when a declaration is repeated, and when an orphan may be removed
//   - recreate.go: which queue is recreated, and when; recreationtasks.go and recreationwork.go: the work of a phase;
//     lostrecreation.go: a recreation whose status was lost
//   - contract.go, pause.go: the ConfigMap for consumers, which also asks them to pause
//   - peers.go, sharing.go: other ConsumerQueues that a change concerns
//   - location.go, instances.go: the vhost that the connection leads to, and other instances of Warren there
//   - watches.go, start.go: which changes enqueue a ConsumerQueue
package consumerqueue
