// Package statuswriter writes the statuses of all kinds. A write replaces the whole status with optimistic concurrency: the API
// server returns a conflict if the resource has changed since it was read. A conflict, like ErrStaleCache, requeues the resource.
//
// What a status says is not decided here. Begin reading at Writer. ADR 0004 says why a status is not applied.
package statuswriter
