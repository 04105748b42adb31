// Package safedelete deletes quorum queues that are provably empty. RabbitMQ cannot delete a quorum queue on condition that it is
// empty. The proof uses a policy that refuses messages (the fence), and messages of Warren that only an empty queue takes (the
// sentinels). ADR 0014 has the argument.
//
// Calls that wait at the same time are deleted together (ADR 0028): a call is a group of queues, and the groups behind one fence
// are a batch. Begin reading at deletion.go, which has the call, and batch.go, which has the steps. These are in preflight.go
// (reasons against the deletion), prove.go, delete.go, restore.go (if a group is not empty after all), undo.go and search.go
// (removal of the sentinels). recovery.go takes down the fences that a crash leaves behind.
//
// batcher.go forms the batches, and register.go records deletions and fences. stats.go and policies.go describe a queue. sentinel.go and
// sentinelconn.go publish sentinels. recreate.go deletes and declares a queue behind one fence, for package recreate.
package safedelete
