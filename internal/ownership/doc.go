// Package ownership knows which ConsumerQueues want and own which objects of a broker, and settles what several of them want.
//
// FindConflict decides who gets an object that two ConsumerQueues cannot both have. Index answers who has to do with an
// object and which bindings nobody wants, and is kept from watch events. ClaimLock lets those wait for each other that may
// dispute an object. Handover decides which of several ConsumerQueues that are being deleted deletes what they share: the last
// one.
//
// ConsumerQueues of other namespaces belong to other tenants: View uses none of their statuses to find out where they are, only what
// Locate says was proved. See docs/adr/0042-same-place.md.
//
// Nothing here speaks to a broker, and nothing decides what to declare or to delete otherwise; see package plan.
package ownership
