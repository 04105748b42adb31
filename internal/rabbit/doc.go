// Package rabbit speaks to RabbitMQ: it observes a vhost through the management API and changes it over AMQP. It knows what the
// broker has and does, and decides nothing: package topology computes what should exist, and the controllers decide when to
// refresh. Nothing of Kubernetes belongs here.
//
// A Connection is one vhost of one broker, seen by one user. Begin with connection.go. Its parts:
//
//   - amqp.go, package amqpconn: the supervisor, which keeps the AMQP connection open
//   - refresh.go, packages management and snapshot: the refresher, which reads the vhost with one request per interval
//   - match.go: the proof that AMQP and the management API lead to one broker
//   - observation.go, views.go: the snapshot, shared by connections with the same rights
//   - eventlistener.go, viewevents.go, package eventfeed: events between two refreshes
//   - operators.go: other instances of Warren on the vhost
//   - apply.go, remove.go: declarations and removals, written through to the snapshot
//   - deletion.go, package safedelete: the deletion of queues that are provably empty
//   - transfers.go, package transfer: messages that are moved or browsed
//
// A change never reaches another cluster than the caller means. Errors are those of package brokererr.
package rabbit
