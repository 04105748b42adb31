// Package change declares and removes the objects of a vhost over AMQP. The snapshot has each change as soon as the broker confirms it.
//
// Begin with apply.go, which has the Changer. It decides nothing: package topology computes what to declare, and the controllers decide
// what to remove. Queues that may hold messages are deleted by package safedelete.
package change
