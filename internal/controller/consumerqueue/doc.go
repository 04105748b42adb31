// Package consumerqueue reconciles ConsumerQueues. Begin with controller.go.
//
//   - normal.go: a resource that is not deleted, until its BrokerConnection can be used
//   - topology.go: from the spec to the status: compare, decide, claim (claim.go), apply, prune (prune.go)
//   - report.go, summarize.go, events.go, statussize.go: what the status and Events report
//   - delete.go, teardown.go: whether and how the topology of a deleted resource is removed
//   - recreate.go: which queue is recreated, and when; recreationtasks.go and recreationwork.go: the work of a phase;
//     lostrecreation.go: a recreation whose status was lost
//   - contract.go, pause.go: the ConfigMap for consumers, which also asks them to pause
//   - peers.go, sharing.go: other ConsumerQueues that a change concerns
package consumerqueue
