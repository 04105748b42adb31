// Package management makes requests to the management API of RabbitMQ. Limits of size, time and memory apply, because brokers are not
// trusted. It decodes answers into items and does not interpret them; package snapshot builds a vhost from them.
//
//   - client.go: requests, and the errors in RabbitMQ's answers. Begin reading here
//   - answer.go, limits.go, size.go: decoding of answers, within the limits that all connections share
//   - probe.go, nodes.go: the broker, its nodes, and what the user may do
//   - items.go, lookups.go, queueinfos.go, counts.go, policies.go: objects of a vhost
//   - endpoint.go: host:port of a URI, as a status shows it
package management
