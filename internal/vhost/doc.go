// Package vhost models the contents of a RabbitMQ vhost: exchanges, queues, bindings and policies, their identities, and the routes of
// messages between them. The package is pure, and independent of Kubernetes, ConsumerQueues and the protocols of a broker. Begin reading at
// objects.go.
package vhost
