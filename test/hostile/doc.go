// Package hostile contains a management API and an AMQP server that misbehave in every way that a broken or hostile server can.
// Until they misbehave, they respond as RabbitMQ 4.3 does.
package hostile
