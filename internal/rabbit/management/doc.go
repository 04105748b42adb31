// Package management makes requests to the management API of RabbitMQ, within limits of size, time and memory: brokers are not trusted.
// It decodes answers into items and does not interpret them; package snapshot builds a vhost from them.
//
//   - client.go: the requests, and the errors that RabbitMQ answers. Begin reading here
//   - answer.go, limits.go, size.go: how an answer is decoded item by item within the limits that all connections share
//   - probe.go, nodes.go: the broker, its nodes, and what the user may do
//   - items.go, lookups.go, queueinfos.go, counts.go, policies.go: objects of a vhost
//   - places.go: how many requests run at a time
//   - endpoint.go: how a broker is named in a status
package management
