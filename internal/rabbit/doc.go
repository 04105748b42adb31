// Package rabbit communicates with RabbitMQ: it observes a vhost through the management API and changes the vhost over AMQP. It makes no
// decisions: package topology computes the desired objects, and the controllers decide when to refresh and what to change. Nothing of
// Kubernetes belongs here.
//
// A Connection is one vhost of one broker, seen by one user. This package only wires the packages below it; begin with connection.go.
// From the top down, each package imports only packages further down:
//
//   - recreate: replaces a queue by one with other arguments
//   - change: declares and removes objects
//   - observe: keeps the snapshot of the vhost current, and finds other instances of Warren
//   - safedelete: deletes queues that are provably empty
//   - mover: moves and browses messages
//   - brokermatch: keeps AMQP connected, and proves that it leads to the broker of the management API
//   - eventfeed: the subscription to the events of a broker
//   - health: the state of a connection
//   - snapshot: the objects of a vhost
//   - amqpconn, management: AMQP connections and requests to the management API, with limits
//   - fence, brokererr, timing, retry, crashpoint: shared definitions
//
// A change never reaches another cluster than the caller names. Errors wrap the reasons in package brokererr.
package rabbit
