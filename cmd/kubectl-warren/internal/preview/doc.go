// Package preview says what applying a ConsumerQueue would change at its broker, by the operator's own planner. It has no connection to
// a broker: what is there, it takes from what the operator wrote into the status of the ConsumerQueue. It does no I/O.
package preview
