// Package safedelete deletes quorum queues that are provably empty. RabbitMQ cannot delete a queue on condition that it is empty.
// So the proof uses a policy that refuses messages (the fence) and messages of Warren's own that only an empty queue takes (the
// sentinels). ADR 0014 has the argument.
//
// Calls that wait at the same time are deleted together (ADR 0028): a call is a group of queues, and the groups behind one fence
// are a batch. A deletion goes through the files in this order: deletion.go (the call), batcher.go (which groups form a batch),
// batch.go (the steps), preflight.go (reasons against the deletion), prove.go, delete.go, restore.go (if a group turns out not to
// be empty half-way), undo.go, search.go (the sentinels are removed). recovery.go takes down the fences that a crash leaves
// behind.
package safedelete
