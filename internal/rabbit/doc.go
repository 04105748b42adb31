// Package rabbit speaks to RabbitMQ: it observes a vhost through the management API, changes it over AMQP, and says how the
// connection fares. It knows what the broker has and does, and decides nothing: what should be there, and what a difference
// means, is topology's; when to refresh and what to tell the user, the controllers'. Nothing of Kubernetes belongs here.
//
// A Connection is one vhost of one broker, seen by one user. It is put together of
//   - a supervisor that keeps the AMQP connection (amqp.go, package amqpconn),
//   - a refresher that reads the vhost once per interval with a single request (refresh.go, packages management and snapshot),
//   - a matcher that shows that AMQP and the management API lead to one broker (match.go),
//   - an observation, shared by the connections that may read the same (observation.go, views.go),
//   - a survey of other operators on the vhost (operators.go),
//   - declaring and removing (apply.go, remove.go), written through to the observation,
//   - the deletion of queues that are provably empty (deletion.go, package safedelete).
//
// No change reaches another cluster than the one that is meant. Errors are those of package brokererr.
package rabbit
