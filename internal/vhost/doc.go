// Package vhost describes what a RabbitMQ vhost has: exchanges, queues, bindings and policies, how they are told apart, and
// how messages move between them. It is pure and knows nothing of Kubernetes, of ConsumerQueues, or of the ways to reach a
// broker.
package vhost
