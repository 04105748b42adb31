// Package conformance holds what ConsumerQueues must become at a broker, vector by vector: resources, and the exact
// content of the vhost for each range of RabbitMQ versions. Only tests use it; it knows nothing of how to get there.
package conformance
