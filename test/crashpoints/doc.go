// Package crashpoints kills a manager before and after its writes to the broker and to the API server, and starts it again.
// The run must end like a run without a kill: with the same objects, arguments, bindings, policies, conditions and messages.
//
// The manager is a process, without leader election. It reaches the broker and the API server through proxies, which number its writes
// by kind and object (effects_test.go, wire_test.go). The gate kills it (gate_test.go). "Before" a write, the broker or the API server
// does not receive the write. "After" it, they have answered or confirmed the write, and the manager does not receive the answer. Some
// writes have no answer: a queue deleted without wait is gone, and a settlement was sent.
//
// Events, and the markers of the event feed, are no crash points. If many messages are moved, only the first, the middle and the last
// move are crash points.
//
// The flows are in flows_test.go. Each run has its own vhost, namespace and manager, so many runs go on at a time.
package crashpoints
