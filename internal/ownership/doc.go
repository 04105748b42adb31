// Package ownership records which ConsumerQueues need and own which objects of a broker, and decides between ConsumerQueues that
// claim the same object.
//
// FindConflict decides between two ConsumerQueues that cannot both have an object. Index finds the ConsumerQueues of an object
// and the bindings that no ConsumerQueue specifies; watch events keep it up to date. ClaimLock serializes ConsumerQueues that may
// dispute an object. Handover decides which of several deleted ConsumerQueues deletes their shared objects: the last one.
//
// ConsumerQueues of other namespaces belong to other tenants. View does not trust the locations in their statuses, only the proven result
// of Locate. See ADR 0015.
//
// This package does not access a broker, and it decides nothing else about declaring and deleting; see package plan. Begin
// reading at conflict.go.
package ownership
