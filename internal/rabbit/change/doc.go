// Package change declares and removes the objects of a vhost over AMQP. A change that the broker confirms is in the snapshot at once.
//
// Begin with apply.go, which has the Changer. It decides nothing: package topology computes what to declare, and the controllers decide
// what to remove. Queues that may hold messages are deleted by package safedelete.
package change
