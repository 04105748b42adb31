// Package vhost models the contents of a RabbitMQ vhost: exchanges, queues, bindings and policies, their identities, and the
// routes of messages between them. It is pure. It knows nothing of Kubernetes, of ConsumerQueues, or of the protocols of a
// broker. Begin reading at objects.go.
package vhost
