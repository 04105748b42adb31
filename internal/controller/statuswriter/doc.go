// Package statuswriter writes the statuses of all kinds. A write replaces the whole status with optimistic concurrency: the API
// server returns a conflict if the resource has changed since it was read. A conflict, like ErrStaleCache, requeues the resource.
//
// Begin reading at Writer. The reconcilers decide what a status says. ADR 0004 says why statuses are not written by server-side apply.
package statuswriter
