// Package conformance contains vectors: ConsumerQueues, and the exact objects in the vhost for each range of RabbitMQ
// versions. It is only for tests and does not depend on how the operator works.
package conformance
