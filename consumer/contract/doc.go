// Package contract is what a topology of Warren and its consumers agree on: where a failed message waits, how its attempts are
// counted, and where it goes when they are used up.
//
// A [Contract] is a JSON document, which the operator writes or which [Default] makes for a ConsumerQueue with an empty spec.
// [Contract.Decide] says what to do with a delivery once it was handled. Package consumer does what it says; a consumer in another
// language finds the same rules as a JSON Schema (contract.schema.json) and as test vectors (the folder vectors).
package contract
