// Package consumerqueue reconciles ConsumerQueues. controller.go wires the controller and begins each reconciliation; normal.go
// reconciles a resource that is to stay, as far as its BrokerConnection lets it; topology.go is the pass from what the spec asks
// for to the status: compare, decide, claim (claim.go), apply, prune (prune.go), report (report.go, summarize.go, events.go,
// statussize.go). delete.go decides about a resource that is being deleted, and teardown.go takes its topology away.
package consumerqueue
