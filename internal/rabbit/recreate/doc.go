// Package recreate replaces a queue by one of the same name with other arguments, and loses no message that RabbitMQ has confirmed.
// RabbitMQ cannot change the arguments of a queue, nor rename it. So the bindings of the queue lead to another queue meanwhile, the hold,
// and package safedelete deletes and declares the queue once it is provably empty. ADR 0045 has the argument.
//
// Each phase is one method of Recreator, which can be repeated after a crash at any point. The caller records the phase before it calls
// the method. Nothing here decides which phase is next: look.go says what the broker has, and the caller decides.
//
//   - recreation.go: what the caller records, and the names of the objects
//   - check.go: what speaks against a recreation
//   - look.go: what the broker has
//   - divert.go: the bindings move to the hold
//   - empty.go, mover.go: messages move to the hold or back
//   - swap.go, freeze.go: the queue is deleted and declared while its delay tiers are held back
//   - giveback.go: bindings and messages move back
package recreate
