// Package definitions turns topologies into the definitions.json of RabbitMQ, and such a file into ConsumerQueues. What is made of a file
// is compared with the file, by the operator's own planner, and whatever differs is told. It does no I/O.
package definitions
