// Package preview computes what applying a ConsumerQueue would change at its broker, with Warren's planner. It does no I/O and
// has no connection to a broker: it takes the state of the broker from the status of the ConsumerQueue.
package preview
