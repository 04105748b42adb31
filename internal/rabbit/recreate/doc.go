// Package recreate replaces a queue by one with the same name and other arguments, and loses no message that RabbitMQ has confirmed.
// RabbitMQ can neither change the arguments of a queue nor rename it. During a recreation, the bindings of the queue lead to a second
// queue, the hold, and its messages are moved to a third queue, the backlog. Package safedelete deletes and declares the queue once it is
// provably empty. ADR 0045 has the argument.
//
// Each phase is one method of Recreator, which can be repeated after a crash at any point. The caller records the phase before it
// calls the method, and decides which phase is next. Inspect reports what exists at the broker.
//
//   - recreation.go: the record of the caller, and the names of the objects
//   - check.go: reasons against a recreation
//   - inspect.go: the state at the broker
//   - divert.go: the bindings move to the hold
//   - empty.go, drain.go, mover.go: messages move to the backlog or back
//   - swap.go, freeze.go, members.go: the queue is deleted and declared while its delay tiers are held back
//   - giveback.go: bindings and messages move back
package recreate
