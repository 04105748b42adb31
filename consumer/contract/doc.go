// Package contract defines what a topology of Warren and its consumers agree on: where a failed message waits, how its attempts
// are counted, and where it goes after the last attempt.
//
// A [Contract] is a JSON document. The operator writes it, or [Default] makes it for a ConsumerQueue with an empty spec.
// [Contract.Decide] decides what to do with a delivery after it was handled, and package consumer carries that out. For consumers
// in other languages the same rules exist as a JSON Schema (contract.schema.json) and as test vectors (the folder vectors).
package contract
