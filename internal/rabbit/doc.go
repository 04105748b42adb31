// Package rabbit speaks to RabbitMQ, and is the only package that does: it observes a vhost through the management API,
// changes it over AMQP, and says how the connection fares. It knows what the broker has and does, and decides nothing:
// what should be there, and what a difference means, is topology's; when to look and what to tell the user, the
// controller's. Nothing of Kubernetes belongs here.
//
// A Connection is one vhost of one broker, seen by one user. It keeps a snapshot of the vhost in memory, refreshed once
// per interval with a single request (observe.go, snapshot.go, store.go), writes what it declares through to it
// (apply.go), and reconnects by itself (connection.go).
//
// Deleting (remove.go, deleteempty.go) never reaches another cluster than the one that is meant. RabbitMQ has no means to
// delete a queue on condition that it is empty, so that is proved: by counters (counts.go, proof.go), then by a policy that
// refuses what is published (fence.go) while marked messages stand in the queue (sentinel.go, guard.go). What a crash
// leaves of that is cleared away (strays.go).
package rabbit
