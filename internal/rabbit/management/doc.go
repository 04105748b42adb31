// Package management asks the management API of RabbitMQ, within limits of size, time and memory.
package management
