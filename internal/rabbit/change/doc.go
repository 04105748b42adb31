// Package change declares and removes the objects of a vhost over AMQP. The snapshot includes each change as soon as the broker confirms
// it.
//
// Begin with apply.go, which has the Changer. The package makes no decisions: package topology computes the objects to declare, and the
// controllers decide which objects to remove. Queues that may hold messages are deleted by package safedelete.
package change
