// Package ownership knows which ConsumerQueues want and own which objects of a broker, and settles what several of them want.
//
// FindConflict decides who gets an object that two ConsumerQueues cannot both have. Index answers who has to do with an
// object and which bindings nobody wants, and is kept from watch events. ClaimLock lets those wait for each other that may
// dispute an object. Handover decides which of several ConsumerQueues that are being deleted deletes what they share: the last
// one.
//
// Nothing here speaks to a broker, and nothing decides what to declare or to delete otherwise; see package plan.
package ownership
