// Package safedelete deletes quorum queues that are provably empty. RabbitMQ cannot delete a queue on condition that it is
// empty, so the proof is made of what RabbitMQ has: a policy that refuses messages (the fence) and messages of Warren's own that
// only an empty queue takes (the sentinels). ADR 0014 has the argument.
//
// Calls that wait at the same time are done together (ADR 0028): a call is a group of queues, and the groups behind one fence are
// a batch. A deletion goes through the files in this order: deletion.go (the call), batcher.go (which groups go together), batch.go
// (the steps), preflight.go (what speaks against it), prove.go, delete.go, restore.go (when a group turns out not to be empty
// half-way), undo.go, search.go (the sentinels are taken out again). What a crash leaves behind is cleared away by recovery.go.
package safedelete
