// Package definitions converts topologies to the definitions.json of RabbitMQ, and such a file to ConsumerQueues. Warren's
// planner compares the ConsumerQueues with the file, and the package reports the differences. It does no I/O.
package definitions
